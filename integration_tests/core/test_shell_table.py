"""What each command of the table does, written out: a row that says less than the command does lets it pass."""

from decimal import Decimal

import pytest

from carriage_core.policy import RESERVED_WORDS, WORD
from carriage_core.schema import Absent, FilePath, Url, normal
from carriage_core.shell import OBJECT_TYPES, VOCABULARY, ShellAction, shell_actions
from carriage_core.shell.commands import RULES
from carriage_core.shell.effects import groups, rows
from carriage_core.shell.table import HARMLESS

WORK = FilePath("/work")

NAMES = ("path", "name", "url", "host", "target", "remote", "repository", "namespace")


def said(action: ShellAction) -> str:
    """Write an action in a few words: what is done, to which type, and what is known of the object."""
    if action.action is None:
        return "unknown"
    words = [action.action, action.object_type or "?"]
    for name in NAMES:
        value = action.attributes.get(f"object.{name}", Absent.MISSING)
        if name == "host" and isinstance(action.attributes.get("object.url"), Url):
            continue  # the URL says it
        if value is not Absent.MISSING:
            words.append(
                value.text if isinstance(value, FilePath | Url) else "?" if isinstance(value, Absent) else str(value)
            )
        if name == "path" and "object.within" in action.attributes:
            within = action.attributes["object.within"]
            words.append(f"in {within.text if isinstance(within, FilePath) else '?'}")
    return " ".join(words)


GOLDEN: tuple[tuple[str, ...], ...] = (
    ("cat a b", "read file /work/a", "read file /work/b"),
    ("head -n 5 a", "read file /work/a"),
    ("tail -f a", "read file /work/a"),
    ("wc -l < a", "read file /work/a"),
    ("grep -rn x src", "read file /work/src", "read file ? in /work/src"),
    ("grep x a", "read file /work/a"),
    ("diff a b", "read file /work/a", "read file /work/b"),
    ("sort a", "read file /work/a"),
    ("sort -o b a", "read file /work/a", "write file /work/b"),
    ("sort -ro b a", "read file /work/a", "write file /work/b"),
    ("uniq a b", "read file /work/a", "write file /work/b"),
    ("tee -a x", "write file /work/x"),
    ("cut -d: -f1 a", "read file /work/a"),
    ("jq .x a", "read file /work/a"),
    ("xxd a b", "read file /work/a", "write file /work/b"),
    ("base64 a", "read file /work/a"),
    ("sed s/a/b/ f", "read file /work/f"),
    ("sed -i s/a/b/ f", "write file /work/f"),
    ("sed -i.bak s/a/b/ f", "write file /work/f", "write file ?"),
    ("sed -n 's/a/b/w out' f", "unknown"),
    ("sed 's/a/date/e' f", "unknown"),
    ("sed -e 1d -e '/x/p' f", "read file /work/f"),
    ("awk '{print $1}' f", "read file /work/f"),
    ("awk 'BEGIN{system(\"rm x\")}'", "unknown"),
    ("ls -la /x",),
    ("echo a",),
    ("printf -v a b", "unknown"),
    ("stat a",),
    ("rm a", "delete file /work/a"),
    ("rm -rf a", "delete file /work/a", "delete file ? in /work/a"),
    ("rm --recurs a", "delete file /work/a", "delete file ? in /work/a"),
    ("rm --unknown a", "unknown"),
    ("rm -- -a", "delete file /work/-a"),
    ("rm -x a", "unknown"),
    ("rm *", "delete file ? in /work"),
    ("rm a/*", "delete file ? in /work/a"),
    ("rm a/../*", "delete file ? in /work"),
    ("rm */../x", "delete file ?"),
    ('rm "$x"', "delete file ?"),
    ("rm a$x", "delete file ?"),
    ("rm $x", "delete file ?"),
    ("rm {a,b}", "delete file /work/a", "delete file /work/b"),
    ("rm {a..c}", "delete file ?"),
    ("rm ~/x", "delete file ?"),
    ("rm a~", "delete file /work/a~"),
    ("rm ~", "delete file ?"),
    ('rm "a b"', "delete file /work/a b"),
    ("rm a\\ b", "delete file /work/a b"),
    ("rm ../x", "delete file /x"),
    ("rm /proc/self/cwd/x", "delete file ?"),
    ("rmdir a", "delete file /work/a"),
    ("rmdir -p a/b", "delete file /work/a/b", "delete file /work", "delete file /work/a"),
    ("unlink a", "delete file /work/a"),
    ("shred -u a", "delete file /work/a"),
    ("truncate -s 0 a", "write file /work/a"),
    (
        "mv a b",
        "write file /work/b",
        "write file /work/b/a",
        "move file /work/a /work/b",
        "move file /work/a /work/b/a",
        "delete file /work/a",
        "delete file ? in /work/a",
    ),
    (
        "mv -t d a b",
        "write file /work/d/a",
        "write file /work/d/b",
        "move file /work/a /work/d/a",
        "move file /work/a /work/d/b",
        "delete file /work/a",
        "delete file ? in /work/a",
        "move file /work/b /work/d/a",
        "move file /work/b /work/d/b",
        "delete file /work/b",
        "delete file ? in /work/b",
    ),
    (
        "mv a b d",
        "write file /work/d/a",
        "write file /work/d/b",
        "move file /work/a /work/d/a",
        "move file /work/a /work/d/b",
        "delete file /work/a",
        "delete file ? in /work/a",
        "move file /work/b /work/d/a",
        "move file /work/b /work/d/b",
        "delete file /work/b",
        "delete file ? in /work/b",
    ),
    ("mv $x d", "unknown"),
    ("cp a b", "read file /work/a", "write file /work/b", "write file /work/b/a"),
    (
        "cp -r a d/",
        "read file /work/a",
        "read file ? in /work/a",
        "write file /work/d",
        "write file ? in /work/d",
        "write file /work/d/a",
        "write file ? in /work/d/a",
    ),
    ("cp -t d a", "read file /work/a", "write file /work/d/a"),
    ("cp -l a b", "unknown"),
    ("ln -s a b", "write file /work/b", "write file /work/b/a", "read file ?"),
    ("ln a b", "write file /work/b", "write file /work/b/a", "read file /work/a"),
    ("install -m 755 a b", "read file /work/a", "write file /work/b", "write file /work/b/a"),
    ("install -d a", "create file /work/a"),
    ("mkdir -p a/b", "create file /work/a/b", "create file /work/a"),
    ("touch a", "write file /work/a"),
    ("mktemp", "create file ?"),
    ("chmod 600 a", "change-rights file /work/a"),
    ("chmod -R go-w a", "change-rights file /work/a", "change-rights file ? in /work/a"),
    ("chmod -x a", "change-rights file /work/a"),
    ("chmod --reference=r a", "change-rights file /work/a"),
    ("chown u:g a", "change-rights file /work/a"),
    ("chgrp g a", "change-rights file /work/a"),
    ("setfacl -m u:x:r a", "change-rights file /work/a"),
    ("setfacl -b a", "change-rights file /work/a"),
    ("chattr +i a", "change-rights file /work/a"),
    ("dd if=a of=b", "read file /work/a", "write file /work/b"),
    ("dd of=/dev/sda", "write file /dev/sda"),
    ("dd x", "unknown"),
    ("tar czf a.tgz d", "write file /work/a.tgz", "read file /work/d", "read file ? in /work/d"),
    (
        "tar -cf a.tar --remove-files d",
        "write file /work/a.tar",
        "read file /work/d",
        "read file ? in /work/d",
        "delete file /work/d",
        "delete file ? in /work/d",
    ),
    ("tar xf a.tgz", "read file /work/a.tgz", "write file ? in /work"),
    ("tar -xf a.tgz -C d", "read file /work/a.tgz", "write file ? in /work/d"),
    ("tar tf a.tgz", "read file /work/a.tgz"),
    ("tar -I sh -xf a", "unknown"),
    ("tar xfP a", "read file /work/a", "write file ? in /work", "write file ?"),
    ("tar --to-command=sh -xf a", "unknown"),
    ("gzip a", "delete file /work/a", "write file /work/a.gz"),
    ("gzip -k a", "read file /work/a"),
    ("gunzip a.gz", "delete file /work/a.gz", "write file /work/a"),
    (
        "zip -r a.zip d",
        "write file /work/a.zip",
        "write file /work/a.zip.zip",
        "read file /work/d",
        "read file ? in /work/d",
    ),
    (
        "zip -m a.zip b",
        "write file /work/a.zip",
        "write file /work/a.zip.zip",
        "read file /work/b",
        "delete file /work/b",
        "delete file ? in /work/b",
    ),
    ("unzip a.zip -d d", "read file /work/a.zip", "write file ? in /work/d"),
    ("unzip -l a.zip", "read file /work/a.zip"),
    ("patch -p1 -i a", "read file /work/a", "write file ?"),
    ("split a", "read file /work/a", "write file ?"),
    ("find . -name x",),
    ("find . -delete", "delete file ? in /work"),
    ("find a -exec rm {} +", "delete file ? in /work/a"),
    ("find a -execdir rm {} ;", "unknown"),
    ("find a -exec rm {} \\;", "delete file ? in /work/a"),
    ("find a -fprint b", "write file /work/b"),
    ("find a -exec sh -c x {} \\;", "unknown"),
    ("find -L a -delete", "delete file ?"),
    ("find $x -delete", "unknown"),
    ("ls | xargs rm", "delete file ?"),
    ("xargs -a list rm", "delete file ?", "read file /work/list"),
    ("xargs -I{} mv {} d", "unknown"),
    ("xargs -I{} cp {} d", "unknown"),
    ("xargs",),
    ("curl https://h/x", "fetch url https://h/x"),
    ("curl -o a https://h/x", "fetch url https://h/x", "write file /work/a"),
    ("curl -O https://h/x", "fetch url https://h/x", "write file ? in /work"),
    ("curl -T a https://h/x", "upload file /work/a https://h/x", "send url https://h/x"),
    ("curl -F f=@a https://h/x", "upload file /work/a https://h/x", "send url https://h/x"),
    ("curl -d @a https://h/x", "upload file /work/a https://h/x", "send url https://h/x"),
    ("curl -d a=b https://h/x", "send url https://h/x"),
    ("curl -X DELETE https://h/x", "delete ? https://h/x"),
    ("curl -X PUT https://h/x", "send url https://h/x"),
    ("curl -G -d a=b https://h/x", "fetch url https://h/x"),
    ("curl -K a", "unknown"),
    ("curl file:///etc/passwd", "unknown"),
    ('curl "$u"', "unknown"),
    ("curl https://h/$x", "unknown"),
    ("curl -H @a https://h/x", "upload file /work/a https://h/x", "fetch url https://h/x"),
    ("curl -x http://p https://h/x", "unknown"),
    ("curl --unix-socket s https://h/x", "unknown"),
    ("wget https://h/x", "fetch url https://h/x", "write file ? in /work"),
    ("wget -O a https://h/x", "fetch url https://h/x", "write file /work/a"),
    (
        "wget --post-file=a https://h/x",
        "upload file /work/a https://h/x",
        "send url https://h/x",
        "write file ? in /work",
    ),
    ("wget -i a", "unknown"),
    ("scp a h:b", "upload file /work/a h"),
    ("scp h:a b", "fetch url ? h", "write file /work/b", "write file /work/b/a"),
    ("scp -o ProxyCommand=x a h:", "unknown"),
    ("sftp h", "unknown"),
    ("ssh h rm x", "unknown"),
    (
        "rsync -a a b",
        "read file /work/a",
        "read file ? in /work/a",
        "write file /work/b",
        "write file ? in /work/b",
        "write file /work/b/a",
        "write file ? in /work/b/a",
    ),
    (
        "rsync -a --delete a b",
        "read file /work/a",
        "read file ? in /work/a",
        "write file /work/b",
        "write file ? in /work/b",
        "write file /work/b/a",
        "write file ? in /work/b/a",
        "delete file /work/b",
        "delete file ? in /work/b",
    ),
    (
        "rsync -a --remove-source-files a h:b",
        "upload file /work/a h",
        "upload file ? in /work/a h",
        "delete file /work/a",
        "delete file ? in /work/a",
    ),
    ("rsync -an --delete a b",),
    ("rsync -e x a h:b", "unknown"),
    ("rsync h:a b", "fetch url ? h", "write file /work/b", "write file /work/b/a"),
    ("nc h 1", "unknown"),
    ("git status",),
    ("git log --oneline -n 3",),
    ("git log -p", "read file ?"),
    ("git diff", "read file ?"),
    ("git diff --output=x", "unknown"),
    ("git grep -Ovi x", "unknown"),
    ("git show HEAD", "read file ?"),
    ("git add a", "stage file /work/a", "stage file ? in /work/a"),
    ("git add -A", "stage file ?"),
    ("git commit -m x", "commit repository ?"),
    ("git fetch origin", "fetch repository ? ?"),
    ("git fetch ext::sh x", "unknown"),
    ("git pull", "fetch repository ? ?", "write file ?", "commit repository ?"),
    ("git clone https://h/r", "fetch repository https://h/r", "write file /work/r", "write file ? in /work/r"),
    ("git clone https://h/r d", "fetch repository https://h/r", "write file /work/d", "write file ? in /work/d"),
    ("git init d", "create file /work/d"),
    ("git push origin main", "push ref main origin"),
    ("git push -f origin a:b", "push ref b origin"),
    ("git push origin :b", "push ref b origin", "delete ref b origin"),
    ("git push --delete origin b", "push ref b origin", "delete ref b origin"),
    ("git push --mirror", "push ref ? ?", "delete ref ? ?"),
    ("git push", "push ref ? ?"),
    ("git push -n",),
    ("git push --receive-pack=x origin main", "unknown"),
    ("git push https://h/r main", "push ref main ?"),
    ("git branch x", "create ref x"),
    ("git branch -D x", "delete ref x"),
    ("git branch -m a b", "move ref a", "move ref b"),
    ("git branch",),
    ("git tag v1", "create ref v1"),
    ("git tag -d v1", "delete ref v1"),
    ("git tag",),
    ("git checkout x", "write file ?"),
    ("git checkout -b x", "create ref x"),
    ("git checkout -- a", "write file ?"),
    ("git switch x", "write file ?"),
    ("git restore a", "write file /work/a", "write file ? in /work/a"),
    ("git restore --staged a",),
    ("git reset --hard", "write file ?", "write ref ?"),
    ("git reset", "write ref ?"),
    ("git clean -fd", "delete file /work", "delete file ? in /work"),
    ("git clean -fd a", "delete file /work/a", "delete file ? in /work/a"),
    ("git clean -n",),
    ("git rm a", "delete file /work/a", "delete file ? in /work/a"),
    ("git rm --cached a", "stage file /work/a", "stage file ? in /work/a"),
    (
        "git mv a b",
        "write file /work/b",
        "write file /work/b/a",
        "move file /work/a /work/b",
        "move file /work/a /work/b/a",
        "delete file /work/a",
        "delete file ? in /work/a",
    ),
    ("git stash", "write file ?"),
    ("git stash list",),
    ("git stash drop", "delete stash ?"),
    ("git stash pop", "write file ?"),
    ("git merge x", "commit repository ?", "write file ?"),
    ("git rebase x", "commit repository ?", "write file ?"),
    ("git rebase -x sh", "unknown"),
    ("git remote -v",),
    ("git remote add a https://h/r", "configure remote a"),
    ("git config user.name",),
    ("git config core.pager x", "unknown"),
    ("git -c core.pager=x log", "unknown"),
    ("git --git-dir=x status", "unknown"),
    ("git -C d clean -f", "delete file /work/d", "delete file ? in /work/d"),
    ("git filter-branch", "unknown"),
    ("git submodule update", "unknown"),
    ("gh release delete v1", "delete release v1 ?"),
    ("gh release create v1 a", "publish release v1 ?", "upload file /work/a ?"),
    ("gh release upload v1 a", "publish release v1 ?", "upload file /work/a ?"),
    ("gh release view v1",),
    ("gh repo delete a/b --yes", "delete repository a/b"),
    ("gh pr merge 1", "push ref ?"),
    ("gh pr create -t x", "publish pull-request ?"),
    ("gh pr view 1",),
    ("gh api repos/a/b", "fetch url ? ?"),
    ("gh api -X DELETE repos/a/b", "delete ? ? ?"),
    ("gh api -f a=b repos/a/b/issues", "unknown"),
    ("gh extension install x", "unknown"),
    ("gh gist create a", "upload file /work/a ?", "publish gist ?"),
    ("gh secret set X", "configure secret X"),
    ("gh issue delete 1", "delete issue 1 ?"),
    ("npm publish", "publish package ?"),
    ("npm publish --dry-run",),
    ("npm unpublish a@1", "delete package a@1"),
    ("npm install", "install package ?"),
    ("npm install a", "install package a"),
    ("npm run x", "unknown"),
    ("npm test", "unknown"),
    ("pip install a", "install package a"),
    ("pip install -r r.txt", "install package ?", "read file /work/r.txt"),
    ("pip uninstall -y a", "uninstall package a"),
    ("pip list",),
    ("twine upload dist/a", "upload file /work/dist/a ?", "publish package ?"),
    ("cargo publish", "publish package ?"),
    ("cargo build", "unknown"),
    ("cargo yank --version 1 a", "delete package a"),
    ("gem push a.gem", "upload file /work/a.gem ?", "publish package ?"),
    ("apt-get install -y a", "install package a"),
    ("apt remove a", "uninstall package a"),
    ("brew uninstall a", "uninstall package a"),
    ("docker ps",),
    ("docker push a:1", "publish image a:1"),
    ("docker rm -f a", "delete container a"),
    ("docker rmi a", "delete image a"),
    ("docker system prune -af", "delete container ?", "delete image ?", "delete volume ?", "delete network ?"),
    ("docker run a", "unknown"),
    ("docker exec a rm x", "unknown"),
    ("docker build .", "unknown"),
    ("docker image rm a", "delete image a"),
    ("kubectl get pods",),
    ("kubectl delete pod a -n p", "delete resource pod p", "delete resource a p"),
    ("kubectl delete -f a.yaml", "delete resource ? ?", "read file /work/a.yaml"),
    ("kubectl delete pod a --dry-run=client",),
    ("kubectl apply -f a.yaml", "deploy resource ? ?", "read file /work/a.yaml"),
    ("kubectl exec a -- rm x", "unknown"),
    ("helm uninstall a", "delete resource a ?"),
    ("helm install a b", "deploy resource a ?"),
    ("terraform destroy -auto-approve", "delete resource ?"),
    ("terraform apply", "deploy resource ?", "delete resource ?"),
    ("terraform plan",),
    ("terraform plan -out=x", "unknown"),
    ("aws s3 rm s3://b/k", "delete object s3://b/k"),
    ("aws s3 rm --recursive s3://b", "delete object s3://b/", "delete object ? b"),
    (
        "aws s3 sync a s3://b --delete",
        "upload file /work/a s3://b/",
        "upload file ? in /work/a s3://b/",
        "delete object s3://b/",
        "delete object ? b",
    ),
    ("aws s3 cp a s3://b/k", "upload file /work/a s3://b/k", "upload file ? in /work/a s3://b/k"),
    (
        "aws s3 mv s3://b/k a",
        "fetch url s3://b/k",
        "delete object s3://b/k",
        "delete object ? b",
        "write file /work/a",
        "write file ? in /work/a",
        "write file /work/a/k",
        "write file ? in /work/a/k",
    ),
    ("aws s3 cp s3://b/k -", "fetch url s3://b/k", "write file /work/-/k", "write file ? in /work/-/k"),
    ("aws ec2 terminate-instances", "unknown"),
    ("gcloud compute instances delete x", "delete resource ?"),
    ("gcloud compute instances list",),
    ("systemctl status a",),
    ("systemctl stop a", "control service a"),
    ("kill -9 1", "kill process 1"),
    ("kill -l",),
    ("pkill -f x", "kill process x"),
    ("crontab -l",),
    ("crontab -r", "schedule job ?", "delete job ?"),
    ("crontab a", "schedule job a"),
    ("at now", "unknown"),
    ("psql -c x", "unknown"),
    ("mysql x", "unknown"),
    ("make", "unknown"),
    ("make clean", "unknown"),
    ("python x.py", "unknown"),
    ("sh -c x", "unknown"),
    ("bash x", "unknown"),
    (". x", "unknown"),
    ("source x", "unknown"),
    ("eval x", "unknown"),
    ("x=1",),
    ("PATH=/x ls", "unknown"),
    ("LD_PRELOAD=x ls", "unknown"),
    ("LC_ALL=C ls",),
    ("export PATH=/x", "unknown"),
    ("export FOO=1",),
    ("unset PATH", "unknown"),
    ("alias ls=rm", "unknown"),
    ("f() { rm x; }", "unknown"),
    ("set -e",),
    ("trap x EXIT", "unknown"),
    ("read x",),
    ("read PATH", "unknown"),
    ("sudo rm a", "delete file /work/a"),
    ("sudo -u x rm a", "delete file /work/a"),
    ("sudo -i", "unknown"),
    ("sudo -s rm a", "unknown"),
    ("env rm a", "delete file /work/a"),
    ("env X=1 rm a", "unknown"),
    ("env -C d rm a", "delete file /work/d/a"),
    ("env -S 'rm a'", "unknown"),
    ("nice rm a", "delete file /work/a"),
    ("timeout 5 rm a", "delete file /work/a"),
    ("timeout -k 1 5 rm a", "delete file /work/a"),
    ("nohup rm a", "delete file /work/a"),
    ("time rm a", "delete file /work/a"),
    ("stdbuf -oL rm a", "delete file /work/a"),
    ("setsid rm a", "delete file /work/a"),
    ("ionice -c 3 rm a", "delete file /work/a"),
    ("command rm a", "delete file /work/a"),
    ("command -v rm",),
    ("builtin echo a",),
    ("exec rm a", "delete file /work/a"),
    ("chroot / rm a", "unknown"),
    ("su -c x", "unknown"),
    ("parallel rm", "unknown"),
    ("watch rm a", "unknown"),
    ("/bin/rm a", "delete file /work/a"),
    ("/usr/bin/rm a", "delete file /work/a"),
    ("./rm a", "unknown"),
    ("/x/rm a", "unknown"),
    ("rm a > b", "write file /work/b", "delete file /work/a"),
    ("> a", "write file /work/a"),
    ("a=b > c", "unknown"),
    ("echo x >> a", "write file /work/a"),
    ("echo x >| a", "write file /work/a"),
    ("echo x &> a", "write file /work/a"),
    ("echo x >& a", "write file /work/a"),
    ("echo x 2>&1",),
    ("cat < a", "read file /work/a"),
    ("cat <> a", "unknown"),
    ("cat <<< a",),
    ("echo x > /dev/null",),
    ("echo x > /dev/tcp/h/1", "connect host h", "upload file ? h"),
    ("echo x > $y", "write file ?"),
    ("echo x > *", "write file ?"),
    ("cat <(rm a)", "delete file /work/a", "read file ?"),
    ("echo $(rm a)", "delete file /work/a"),
    ("echo `rm a`", "delete file /work/a"),
    ('echo "$(rm a)"', "delete file /work/a"),
    ("echo $((1+2))",),
    ("echo $((x))", "unknown"),
    ("echo ${x}",),
    ("echo ${x@P}", "unknown"),
    ("echo ${x:=a}", "unknown"),
    ("echo ${!x}", "unknown"),
    ("[ -f a ]",),
    ("[ -v a[0] ]", "unknown"),
    ("[[ -f a ]]",),
    ("[[ $x -eq 1 ]]", "unknown"),
    ("[[ a < b ]]", "unknown"),
    ("((x))", "unknown"),
    ("cd d && rm a", "delete file /work/d/a"),
    ("cd d; rm a", "delete file /work/a", "delete file /work/d/a"),
    ("cd d || exit 1; rm a", "delete file /work/d/a"),
    ("(cd d); rm a", "delete file /work/a"),
    ('cd "$x" && rm a', "delete file ?"),
    ("cd && rm a", "delete file ?"),
    ("cd - && rm a", "delete file ?"),
    ("pushd d && rm a", "delete file ?"),
    ("cd d | rm a", "delete file /work/a"),
    ("if cd d; then rm a; else rm b; fi", "delete file /work/d/a", "delete file /work/b"),
    ("for i in 1 2; do cd d; done; rm a", "delete file ?"),
    ("while true; do rm a; done", "delete file /work/a"),
    ("case x in x) rm a;; esac", "delete file /work/a"),
    ("rm a &", "delete file /work/a"),
    ("! rm a", "delete file /work/a"),
    ("true && rm a", "delete file /work/a"),
    ("ln -s r l; rm l/a", "write file ?", "write file ?", "read file ?", "delete file ?"),
    ("# rm a",),
    ("echo a # rm b",),
    ("echo 'rm a'",),
    ("foo", "unknown"),
    ('"rm a"', "unknown"),
    ("'' a", "unknown"),
    ("$x a", "unknown"),
    ("r''m a", "delete file /work/a"),
    ("$'\\162m' a", "delete file /work/a"),
    ("rm\\ a", "unknown"),
    ("!!", "unknown"),
    ('echo "a!b"', "unknown"),
)
"""A command in ``/work``, and everything it would do."""


@pytest.mark.parametrize("row", GOLDEN, ids=[row[0] for row in GOLDEN])
def test_a_command_does_more_than_its_row_says(row: tuple[str, ...]):
    command, *expected = row
    assert sorted(said(one) for one in shell_actions(command, cwd=WORK)) == sorted(expected)


@pytest.mark.parametrize("key", sorted(rows()))
def test_a_row_speaks_of_something_no_policy_can_name(key: str):
    row = rows()[key]
    for role in (*row.operands, *row.always, *(option.mark for option in row.options.values())):
        action, slash, kind = role.rstrip("*").partition(":")[0].partition("/")
        if role.startswith("@"):
            assert role in RULES or role == "@sub"
        elif slash:
            assert kind == "anywhere" or kind in OBJECT_TYPES[action], role
    assert key not in HARMLESS


def test_at_least_sixty_commands_have_a_row():
    assert len({key.split()[0] for key in rows()}) >= 60
    assert len(rows()) - len(groups() & rows().keys()) >= 300


def test_an_action_has_a_name_that_no_clause_can_hold():
    for action, attributes in VOCABULARY.items():
        assert WORD.fullmatch(action)
        assert action not in RESERVED_WORDS
        assert OBJECT_TYPES[action]
        assert all(WORD.fullmatch(kind) and kind not in RESERVED_WORDS for kind in OBJECT_TYPES[action])
        assert all(name.startswith(("object.", "action.")) for name in attributes)
        assert {"object.type", "action.name", "action.tool", "action.external"}.isdisjoint(attributes)


@pytest.mark.parametrize("row", GOLDEN, ids=[row[0] for row in GOLDEN])
def test_an_attribute_has_another_type_than_a_policy_would_compare_with(row: tuple[str, ...]):
    for one in shell_actions(row[0], cwd=WORK):
        for name, value in one.attributes.items() if one.action else ():
            assert isinstance(value, Absent) or normal(value, VOCABULARY[one.action or ""][name]) == value
            assert not isinstance(value, Decimal)


def test_an_explanation_repeats_a_secret():
    told = [
        one.why
        for command in ("curl -H 'A: hunter2' https://h/hunter2", "rm hunter2", "x=hunter2 foo", "mysql -phunter2")
        for one in shell_actions(command, cwd=WORK)
    ]
    assert told
    assert not any("hunter2" in why for why in told)


# Words of an operator


def test_a_declared_word_is_still_unknown():
    words = {"deploy": "deploy", "make test": None, "./run.sh": None, "rm": None}
    assert [one.action for one in shell_actions("deploy prod", cwd=WORK, words=words)] == ["deploy"]
    assert shell_actions("make test", cwd=WORK, words=words) == ()
    assert shell_actions("sudo make test -j4", cwd=WORK, words=words) == ()
    assert shell_actions("./run.sh a", cwd=WORK, words=words) == ()


def test_a_declared_word_covers_more_than_it_says():
    words: dict[str, str | None] = {"make test": None, "deploy": "deploy"}
    assert [one.action for one in shell_actions("make clean", cwd=WORK, words=words)] == [None]
    assert [one.action for one in shell_actions("make $x", cwd=WORK, words=words)] == [None]
    assert [one.action for one in shell_actions("/x/deploy", cwd=WORK, words=words)] == [None]


def test_a_declared_word_takes_a_row_out_of_the_table():
    assert [one.action for one in shell_actions("rm x", cwd=WORK, words={"rm": None})] == ["delete"]


def test_a_declared_word_lets_a_rule_of_its_action_pass():
    """Nothing is known of its object, so every rule about the action could be meant."""
    (action,) = shell_actions("deploy prod", cwd=WORK, words={"deploy": "deploy"})
    assert action.object_type is None
    assert action.attributes.keys() == {"action.word"}


# The working directory


@pytest.mark.parametrize("command", ["rm x", "rm ./x", "cat x > y", "git clean -f", "find . -delete", "tar xf a"])
def test_a_relative_path_is_read_against_a_folder_nobody_named(command: str):
    for one in shell_actions(command, cwd=None):
        assert one.attributes.get("object.path") is Absent.UNKNOWN
        assert "object.within" not in one.attributes
