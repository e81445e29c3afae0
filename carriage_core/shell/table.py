# SPDX-License-Identifier: Apache-2.0
"""What each command does: one row for each, data and no code (DESIGN 3.4).

A row is ``NAMES | OPTIONS | OPERANDS | ALWAYS``, the last part optional; an indented line goes on. A command, a
subcommand or an option without a row is unknown. ``>`` stands in front of subcommands; of several words on each side,
each goes with each.

Options: ``-x`` and ``--long`` stand alone, ``-x=`` and ``--long=`` take a value, ``--long?`` only behind ``=``.
Behind a colon stands what the option means: ``recursive``; ``dry`` (nothing happens); ``vague`` (paths beyond the
operands are touched); ``skip`` (the first text operand is not there); ``cwd`` (the folder to work in); ``refuse``
(unknown); a role for its value; an attribute (``object.repository``); or an effect (``delete/stash``). Other words are
read by the functions in `rules`.

Letters: ``*`` other options do nothing of interest, ``!x`` except these; ``~`` no option makes it worse, so that one
nobody can read is an operand; ``&`` long options may be abbreviated, and the list is complete; ``+`` options end at the
first operand.

Operands: roles in order. One with ``*`` takes all that are left, those behind it the last ones. ``text`` means nothing.
A role is an action on a file, or ``ACTION/TYPE`` on something with a name. ``@rule`` is a function of `rules`. Always:
effects that need no operand.
"""

from __future__ import annotations

from typing import Final

HARMLESS: Final = frozenset(
    """
    echo true false : pwd sleep tty seq whoami id groups uname uptime which whereis type printenv locale arch nproc
    free ps pgrep who w tput clear basename dirname realpath readlink expr factor cal sync umask ulimit stat
    df du ls dir test return break continue shift logname users lscpu lsblk pidof getconf
    """.split()  # noqa: SIM905  # a paragraph is easier to read than a list
)
"""Commands that do nothing a rule could be about, whatever their arguments; output goes to redirections only."""

ROWS: Final = r"""
cat tac wc comm rev cksum sum md5sum sha1sum sha256sum sha512sum b2sum | * ~ | read*
head tail | * ~ -n= -c= -s= --lines= --bytes= --pid= --sleep-interval= | read*
cut | * ~ -d= -f= -b= -c= --delimiter= --fields= --bytes= --characters= --output-delimiter= | read*
paste fold fmt expand unexpand column base64 base32 strings | * ~ -d= -w= -t= -s= -n= -c= --wrap= --width=
    --delimiters= --tabs= | read*
nl join od hexdump | * ~ -b= -d= -f= -h= -i= -l= -n= -s= -v= -w= -t= -1= -2= -j= -o= -e= -a= -A= -N= | read*
cmp diff | -q -r:recursive -u -U= -C= -c -y -i -w -b -B -N -a -s -l -n= -x= -I= -W= --brief --recursive:recursive
    --unified? --side-by-side --color? --ignore-all-space --ignore-space-change --exclude= --strip-trailing-cr
    --label= --silent --quiet | read*
xxd | -r -p -l= -s= -c= -g= -u -b -i | read write
file | -b --brief -i --mime --mime-type -L -z -k -s | text*
grep egrep fgrep zgrep | * ~ -e=:skip -f=:pattern-file --regexp=:skip --file=:pattern-file -r:recursive -R:recursive
    --recursive:recursive --dereference-recursive:recursive -m= -A= -B= -C= -d= -D= --include= --exclude=
    --exclude-dir= --max-count= --context= --after-context= --before-context= --label= --color? --colour? | text
    read*
rg | -i -n -l -c -v -w -F -S -e=:skip -g= -t= -A= -B= -C= -m= --hidden --files -N -H -o | text read:recursive*
jq | -r -n -c -s -S -e -M -C -j -a --arg=:pair --argjson=:pair --raw-output --compact-output --slurp --sort-keys |
    text read*
tr | -d -s -c -C -t --delete --squeeze-repeats --complement | text*
sort | & -b -d -f -g -h -M -n -R -r -V -k= -m -o=:write -s -S= -t= -u -z -c -C --ignore-leading-blanks
    --dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort
    --numeric-sort --random-sort --random-source=:read --reverse --sort= --version-sort --batch-size= --check?
    --compress-program=:refuse --debug --files0-from=:refuse --key= --merge --output=:write --stable --buffer-size=
    --field-separator= --temporary-directory=:refuse --parallel= --unique --zero-terminated --help --version | read*
uniq | -c -d -D -f= -i -s= -u -w= -z --count --repeated --unique --ignore-case | read write
tee | & ~ -a -i -p --append --ignore-interrupts --output-error? --help --version | write*
split csplit | * ~ | @anywhere
less more | -N -R -S -F -X -i -n | read*
tree | -a -d -L= -f -i -I= -P= -C -p -s -h --dirsfirst | text*
date | + -u -R -I -d= --utc --iso-8601? --date= --rfc-3339= | text*
printf | + | text*
jobs | -l -p -r -s -n | text*
wait | -n | text*
set | + -e -u -x -f -h -C -v -o=:shell-option | none
hostname | -f -s -d -i -I -A | none
env | & + -i -u=:unset -C=:cwd -0 -v --ignore-environment --unset=:unset --chdir=:cwd --null --debug -S=:refuse
    --split-string=:refuse --argv0=:refuse --block-signal? --default-signal? --ignore-signal? --list-signal-handling
    --help:harmless --version:harmless | @run
sudo | + -n -E:refuse -H -k -K -S -b -u= -g= -p= -C= -T= -D=:cwd --user= --group= --non-interactive --set-home
    --stdin --preserve-env:refuse --chdir=:cwd -i:refuse -s:refuse -e:refuse -l:harmless -v:harmless -V:harmless |
    @run
doas | + -n -u= -s:refuse -C=:refuse | @run
nice | + -n= --adjustment= -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 | @run
ionice | + -c= -n= -t -p=:harmless --class= --classdata= --ignore | @run
nohup setsid | + -c -f -w --fork --wait --ctty | @run
time | + -p -v -f= -o=:write -a --format= --output=:write --append --portability --verbose | @run
timeout | + -s= -k= -v --signal= --kill-after= --foreground --preserve-status --verbose | @run1
stdbuf | + -i= -o= -e= --input= --output= --error= | @run
command | + -p -v:harmless -V:harmless | @run
builtin | + | @run
exec | + -c -l -a= | @run
xargs | + -0 -r -t -p -x -n= -L= -P= -I=:replace -d= -s= -E= -a=:read --null --no-run-if-empty --verbose --max-args=
    --max-lines= --max-procs= --delimiter= --replace?:replace --arg-file=:read --max-chars= --eof? --exit
    --interactive | @xargs
find | | @find
export readonly local declare typeset | + -x -r -p:harmless -g | @assign
unset | + -v | @names
read | + -r -s -p= -n= -N= -t= -d= -u= -e | @names
exit | + | text*
rm | & ~ -f -i -I -r:recursive -R:recursive -d -v --force --interactive? --one-file-system --no-preserve-root
    --preserve-root? --recursive:recursive --dir --verbose --help --version | delete*
unlink | | delete
rmdir | & ~ -p:parents -v --ignore-fail-on-non-empty --parents:parents --verbose --help --version | delete*
shred | & ~ -f -n= -s= -u -v -x -z --force --iterations= --random-source=:read --size= --remove? --verbose --exact
    --zero --help --version | delete*
truncate | & -c -o -r=:text -s= --no-create --io-blocks --reference=:text --size= --help --version | write*
mv | & -b:vague -f -i -n -S=:vague -t=:target -T:exact -u -v -Z --backup?:vague --force --interactive --no-clobber
    --suffix=:vague --target-directory=:target --no-target-directory:exact --update? --verbose
    --strip-trailing-slashes --context? --no-copy --exchange:refuse --debug --help --version | @move
cp | & -a:recursive -b:vague -d -f -i -H -l:refuse -L -n -P -p -r:recursive -R:recursive -s:refuse -S=:vague
    -t=:target -T:exact -u -v -x -Z --archive:recursive --attributes-only --backup?:vague --copy-contents --force
    --interactive --link:refuse --dereference --no-clobber --no-dereference --preserve? --no-preserve=
    --parents:vague --recursive:recursive --reflink? --remove-destination --sparse= --strip-trailing-slashes
    --symbolic-link:refuse --suffix=:vague --target-directory=:target --no-target-directory:exact --update?
    --verbose --one-file-system --context? --keep-directory-symlink --debug --help --version | @copy
ln | & -b:vague -d -F -f -i -L -n -P -r:from-here -s:symbolic -S=:vague -t=:target -T:exact -v --backup?:vague
    --directory --force --interactive --logical --no-dereference --physical --relative:from-here --symbolic:symbolic
    --suffix=:vague --target-directory=:target --no-target-directory:exact --verbose --help --version | @link
link | | read write
install | -b:vague -c -C -d:folders -D -g= -m= -o= -p -s:refuse -S=:vague -t=:target -T:exact -v --backup?:vague
    --compare --directory:folders --group= --mode= --owner= --preserve-timestamps --suffix=:vague
    --target-directory=:target --no-target-directory:exact --verbose | @copy
mkdir | & ~ -m= -p:parents -v -Z --mode= --parents:parents --verbose --context? --help --version | create*
mkfifo | ~ -m= --mode= | create*
mktemp | & ~ -d -u -q -p=:text -t --directory --dry-run --quiet --suffix= --tmpdir? --help --version |
    @anywhere-create
touch | & ~ -a -c -d= -f -h -m -r=:text -t= --no-create --date= --no-dereference --reference=:text --time= --help
    --version | write*
chmod | & ~ -c -f -v -R:recursive -r:skip -w:skip -x:skip -X:skip -s:skip -t:skip -u:skip -g:skip -o:skip --changes
    --quiet --silent --no-preserve-root --preserve-root --verbose --reference=:skip --recursive:recursive --help
    --version | text change-rights*
chown chgrp | & ~ -c -f -v -h -R:recursive -H -L -P --changes --dereference --no-dereference --from=
    --no-preserve-root --preserve-root --quiet --silent --verbose --reference=:skip --recursive:recursive --help
    --version | text change-rights*
setfacl | -b:skip -k:skip -m=:skip -M=:skip -x=:skip -X=:skip -R:recursive -d -L -P -n --modify=:skip --remove=:skip
    --remove-all:skip --remove-default:skip --recursive:recursive --default --set=:skip --test:dry | text
    change-rights*
chattr | -R:recursive -V -f -i:skip -a:skip -u:skip -s:skip -c:skip -d:skip -e:skip | text change-rights*
dd | | @dd
sed | & -n -e=:script -f=:refuse -E -r -i?:in-place -l= -s -z -u --quiet --silent --debug --expression=:script
    --file=:refuse --follow-symlinks --in-place?:in-place --line-length= --null-data --posix --regexp-extended
    --separate --sandbox --unbuffered --help --version | @sed
awk gawk mawk | + -F= -v=:refuse -f=:refuse | @awk
tar | & -c:c -x:x -t:t -r:r -u:r -d:t -z -j -J -Z -a -v -p -P:vague -k -O -h -m -S -U -w -W -f=:archive -C=:cwd
    -T=:refuse -X=:refuse -I=:refuse -F=:refuse --create:c --extract:x --get:x --list:t --append:r --update:r
    --delete:r --diff:t --compare:t --concatenate:r --catenate:r --gzip --gunzip --bzip2 --xz --zstd --lzma --lzip
    --auto-compress --verbose --preserve-permissions --same-permissions --absolute-names:vague --keep-old-files
    --to-stdout --dereference --touch --sparse --unlink-first:vague --recursive-unlink:vague --exclude=
    --exclude-vcs --wildcards --no-wildcards --anchored --strip-components= --no-same-owner --no-same-permissions
    --same-owner --overwrite --file=:archive --directory=:cwd --remove-files:remove --numeric-owner --owner=
    --group= --mode= --mtime= --sort= --totals --transform=:refuse --xform=:refuse --to-command=:refuse
    --checkpoint-action=:refuse --use-compress-program=:refuse --rsh-command=:refuse --info-script=:refuse
    --new-volume-script=:refuse --files-from=:refuse --exclude-from=:refuse --checkpoint? --one-top-level?:refuse |
    @tar
gzip gunzip bzip2 bunzip2 xz unxz | -c:stdout -d:unpack -f -k:stdout -l:stdout -n -q -r:recursive -t:stdout -v -1 -2
    -3 -4 -5 -6 -7 -8 -9 -z --stdout:stdout --keep:stdout --decompress:unpack --force --test:stdout --list:stdout
    --best --fast | @squeeze
zcat bzcat xzcat | * ~ | read*
zip | -r:recursive -q -v -j -9 -0 -u -m:remove -x=:refuse | @zip
unzip | -o -n -q -l:list -t:list -v:list -p:list -j -d=:target | @unzip
patch | -p= -i=:read -R -N -s -f -d=:cwd --dry-run:dry --strip= --input=:read --reverse --forward --directory=:cwd |
    text* | write/anywhere
curl | -s -S -L -f -v -k -i -I:head -g -4 -6 -N -n -q -R -j -l -a -B -O:remote-name -G:get -d=:data -F=:form
    -T=:body -X=:method -o=:write -D=:write -c=:write -b=:cookie -H=:header -u= -A= -e= -m= -w=:header -x=:refuse
    -r= -y= -Y= -z= -C= -U= -# --silent --show-error --location --fail --fail-with-body --verbose --insecure
    --include --head:head --globoff --ipv4 --ipv6 --no-buffer --remote-name:remote-name
    --remote-header-name:remote-name -J:remote-name --remote-name-all:remote-name --get:get --data=:data
    --data-ascii=:data --data-binary=:data --data-urlencode=:urlencode --data-raw=:raw --json=:data --form=:form
    --form-string=:raw --upload-file=:body --request=:method --output=:write --output-dir=:target --create-dirs
    --dump-header=:write --cookie-jar=:write --cookie=:cookie --header=:header --user= --user-agent= --referer=
    --max-time= --connect-timeout= --write-out=:header --proxy=:refuse --range= --retry= --retry-delay=
    --retry-max-time= --retry-all-errors --retry-connrefused --compressed --url=:url --http1.1 --http2 --max-redirs=
    --cacert=:read --cert=:read --key=:read --no-progress-meter --progress-bar --tlsv1.2 --tlsv1.3 --version -V |
    @curl
wget | -q -nv -nc -nd -nH -np -c -N -v -S -4 -6 -k -p -O=:document -o=:write -a=:write -P=:target -t= -T= -w= -U=
    --quiet --no-verbose --continue --timestamping --output-document=:document --output-file=:write
    --append-output=:write --directory-prefix=:target --post-file=:body --body-file=:body --post-data=:raw
    --body-data=:raw --method=:method --header=:raw-header --user-agent= --tries= --timeout= --no-check-certificate
    --spider:spider --show-progress --max-redirect= --user= --password= --server-response --no-clobber | @wget
scp | -r:recursive -p -q -C -v -B -3 -4 -6 -O -s -T -P= -i=:read -l= -c= | @scp
rsync | -a:recursive -r:recursive -v -z -h -P -q -l -L -p -t -g -o -D -H -A -X -S -u -c -x -W -i -R:refuse -n:dry
    --archive:recursive --recursive:recursive --verbose --compress --human-readable --progress --partial --quiet
    --links --perms --times --stats --update --checksum --dry-run:dry --exclude= --include= --delete:delete
    --del:delete --delete-before:delete --delete-during:delete --delete-delay:delete --delete-after:delete
    --delete-excluded:delete --delete-missing-args:delete --remove-source-files:remove --ignore-existing --existing
    --size-only --inplace --bwlimit= --timeout= --info= --itemize-changes --chmod= --numeric-ids --mkpath | @rsync
kill | + -9 -15 -1 -2 -3 -s= -n= -l:harmless -L:harmless -TERM -KILL -HUP -INT -QUIT -STOP -CONT -USR1 -USR2
    -SIGTERM -SIGKILL -SIGHUP -SIGINT | kill/process*
pkill killall | -f -9 -15 -u= -n -o -x -i -q -w -TERM -KILL -HUP -INT -e -l:harmless | kill/process*
crontab | -l:harmless -e:refuse -r:delete/job -u= -i | schedule/job
systemctl | --user -q --no-pager --now -l -n= | @sub
ping ping6 | -c= -i= -w= -W= -n -q -4 -6 | connect/host
dig nslookup | * | text* | connect/anywhere
twine > upload | --skip-existing -r= --repository= --repository-url= -u=:text -p=:text --username= --password=
    --non-interactive --verbose --sign:refuse | upload* | publish/package
twine > check | --strict | read*
gem > push | --host= -k= | upload* | publish/package
gem > yank | -v= --version= --host= -k= | delete/package*
gem > install | -v= --version= --no-document -N | install/package*
gem > uninstall | -v= --version= -a -x | uninstall/package*
gem > list | * | text*
pip pip3 > install | -q -v -U -e=:install/package -r=:read -c=:read -i= --upgrade --quiet --user --no-deps --pre
    --editable=:install/package --requirement=:read --constraint=:read --index-url= --extra-index-url=
    --target=:refuse -t=:refuse --no-cache-dir --break-system-packages --force-reinstall --ignore-installed
    --no-build-isolation --only-binary= --dry-run --disable-pip-version-check | install/package*
pip pip3 > uninstall | -y --yes -r=:read -q --break-system-packages | uninstall/package*
pip pip3 > list show freeze check | * | text*
apt apt-get > install reinstall upgrade dist-upgrade full-upgrade | -y -q -qq --yes --assume-yes
    --no-install-recommends --fix-missing --fix-broken --only-upgrade --allow-downgrades -f -s:dry --dry-run:dry
    --simulate:dry | install/package*
apt apt-get > remove purge autoremove | -y -q --yes --purge -s:dry --dry-run:dry --simulate:dry | uninstall/package*
apt apt-get > update | -y -q -qq | none
apt apt-cache > search show policy depends list | * | text*
brew dnf yum > install reinstall upgrade update | -y -q --yes --cask --formula | install/package*
brew dnf yum > uninstall remove erase | -y -q --yes --force --cask --zap | uninstall/package*
brew dnf yum > list info search | * | text*
npm pnpm yarn > publish | --tag= --access= --otp= --dry-run:dry --registry= -w= --workspace= --workspaces
    --provenance --no-git-checks --new-version= | text* | publish/package
npm pnpm > unpublish | -f --force --dry-run:dry --otp= --registry= | delete/package*
npm pnpm > deprecate | --otp= --registry= | delete/package text
npm pnpm > install i ci add | -g -D -E -O -P --save --save-dev --save-exact --global --no-save --production --omit=
    --include= --legacy-peer-deps --no-audit --no-fund --prefer-offline --ignore-scripts --frozen-lockfile --silent
    --dry-run:dry | install/package*
yarn > add install | -D --dev -E --exact --frozen-lockfile --silent --ignore-scripts | install/package*
npm pnpm > uninstall remove rm un | -g -D --save --save-dev --global | uninstall/package*
yarn > remove | -W | uninstall/package*
npm pnpm yarn > ls list view info outdated why | * | text*
cargo > publish | -p= --package= --dry-run:dry -n:dry --allow-dirty --no-verify --token= --registry=
    --manifest-path=:read --locked -q | none | publish/package
cargo > yank | --version= --vers= --undo --registry= --token= | delete/package
cargo > install | -f --force --git= --path= --version= --locked --features= -q | install/package*
cargo > uninstall | -p= | uninstall/package*
cargo > search tree metadata | * | text*
poetry uv hatch flit > publish | -u= -p= --username= --password= -r= --repository= --dry-run:dry --token=
    --publish-url= --skip-existing --build:refuse | upload* | publish/package
docker podman > push | -a --all-tags -q --quiet --disable-content-trust? | publish/image
docker podman > image > push | -a --all-tags -q --quiet | publish/image
docker podman > pull | -a -q --quiet --platform= | install/image
docker podman > rm | -f -v -l --force --volumes | delete/container*
docker podman > container > rm prune | -f -v -l --force --volumes --filter= | delete/container*
docker podman > rmi | -f --force --no-prune -a | delete/image*
docker podman > image > rm prune | -f -a --force --all --filter= --no-prune | delete/image*
docker podman > volume > rm prune | -f -a --force --all --filter= | delete/volume*
docker podman > network > rm prune | -f --force --filter= | delete/network*
docker podman > system > prune | -a -f --all --force --volumes --filter= | none | delete/container delete/image
    delete/volume delete/network
docker podman > builder > prune | -a -f --all --force --filter= --keep-storage= | none | delete/image
docker podman > stop kill restart | -t= -s= --time= --signal= | kill/container*
docker podman > tag | | text create/image
docker podman > ps images logs inspect version info stats top port diff history events search | * | text*
docker podman > image > ls list inspect history | * | text*
docker podman > container > ls list inspect logs top stats | * | text*
docker podman > volume network > ls list inspect | * | text*
docker podman > system > df info | * | text*
kubectl oc | + -n=:object.namespace --namespace=:object.namespace --context= --cluster= -v= | @sub
kubectl oc > delete | -n=:object.namespace --namespace=:object.namespace -f=:read --filename=:read -l= --selector=
    --all -A --all-namespaces --force --now --grace-period= --wait? --timeout= --ignore-not-found --cascade? -R -o=
    --dry-run?:dry-run --context= | delete/resource*
kubectl oc > apply create replace patch scale label annotate edit set rollout cordon uncordon drain taint autoscale
    expose | -n=:object.namespace --namespace=:object.namespace -f=:read --filename=:read -k=:refuse -l= --selector=
    --all --force --prune:delete/resource --server-side --wait? --timeout= --replicas= --image= -p= --type=
    --overwrite -o= --dry-run?:dry-run --context= --record? --ignore-daemonsets --delete-emptydir-data --validate?
    --grace-period= | deploy/resource*
kubectl oc > get describe logs top version cluster-info explain api-resources api-versions auth events | -n=
    --namespace= -A --all-namespaces -o= --output= -l= --selector= -w --watch --show-labels --sort-by= -f --follow
    -c= --container= --tail= --since= --previous -p --context= --field-selector= --no-headers | text*
helm > uninstall delete un del | -n=:object.namespace --namespace=:object.namespace --keep-history --no-hooks
    --dry-run:dry --wait --timeout= --kube-context= | delete/resource*
helm > install upgrade rollback | -n=:object.namespace --namespace=:object.namespace -f=:read --values=:read --set=
    --set-string= -i --install --create-namespace --wait --atomic --timeout= --version= --dry-run:dry --force
    --reuse-values --kube-context= | deploy/resource text*
helm > list ls status get history show search version | -n= --namespace= -A --all-namespaces -a -o= --output=
    --kube-context= | text*
terraform tofu | + -chdir=:cwd | @sub
terraform tofu > destroy | -auto-approve -target= -var= -var-file=:read -lock= -parallelism= -refresh= -input=
    -no-color | none | delete/resource
terraform tofu > apply | -auto-approve -target= -var= -var-file=:read -lock= -parallelism= -refresh= -input=
    -no-color -destroy -replace= | text* | deploy/resource delete/resource
terraform tofu > plan validate show output version graph providers | * !out !generate-config-out | text*
terraform tofu > state > list show | * | text*
terraform tofu > state > rm | -dry-run:dry -lock= -backup=:write | delete/resource*
terraform tofu > fmt | -check:harmless -recursive -diff | text* | write/anywhere
aws > s3 > ls | * | text*
aws > s3 > rb | --force --region= --profile= | @bucket
aws > s3 > rm | --recursive:recursive --dryrun:dry --exclude= --include= --quiet --region= --profile=
    --only-show-errors | @bucket
aws > s3 > cp mv sync | --recursive:recursive --dryrun:dry --delete:delete --exclude= --include= --acl= --quiet
    --region= --profile= --only-show-errors --no-progress --size-only --exact-timestamps --storage-class=
    --content-type= --cache-control= | @transfer
gsutil > rm | -r:recursive -R:recursive -f -a | @bucket
gsutil > cp mv rsync | -r:recursive -R:recursive -d:delete -n:dry -c -p -z= | @transfer
gsutil > ls | * | text*
aws > sts > get-caller-identity | * | text*
gcloud | * | @cloud
systemctl > status show list-units list-unit-files is-active is-enabled is-failed cat | * | text*
systemctl > start stop restart reload enable disable mask unmask daemon-reload try-restart | --now --user -q
    --no-block -f --force --runtime | control/service*
service | | control/service text
gh | + | @sub
gh > release > delete | -y --yes --cleanup-tag:delete/ref -R=:object.repository --repo=:object.repository |
    delete/release
gh > release > delete-asset | -y --yes -R=:object.repository --repo=:object.repository | delete/release text
gh > release > create | -t= -n= -F=:upload -d -p --title= --notes= --notes-file=:upload --generate-notes --target=
    --draft --prerelease --latest? --verify-tag --discussion-category= -R=:object.repository
    --repo=:object.repository --notes-from-tag | publish/release upload*
gh > release > upload | --clobber -R=:object.repository --repo=:object.repository | publish/release upload*
gh > release > edit | -t= -n= -F=:upload --title= --notes= --notes-file=:upload --draft? --prerelease? --latest?
    --tag= --target= -R=:object.repository --repo=:object.repository | publish/release
gh > release > list view | * | text*
gh > release > download | -p= --pattern= -D=:refuse --dir=:refuse -O=:write --output=:write --clobber
    --skip-existing -R=:object.repository --repo=:object.repository | fetch/release | write/anywhere
gh > repo > delete | --yes --confirm -y | delete/repository
gh > repo > archive rename edit | * | configure/repository*
gh > repo > view list | * | text*
gh > repo > clone | | fetch/repository | write/anywhere
gh > pr issue run workflow cache label > view list status checks diff | * !web | text*
gh > pr > create edit close reopen ready review comment | * -F=:upload --body-file=:upload | text* |
    publish/pull-request
gh > pr > merge | * | text* | push/ref
gh > issue > create edit close reopen comment | * -F=:upload --body-file=:upload | text* | publish/issue
gh > issue > delete | --yes --confirm -R=:object.repository --repo=:object.repository | delete/issue
gh > gist > create | -p -w -d= -f= --public --web --desc= --filename= | upload* | publish/gist
gh > secret variable > set | * | configure/secret text*
gh > secret variable > delete remove | * | delete/secret
gh > secret variable > list | * | text*
gh > workflow > run enable disable | * | deploy/workflow*
gh > run > rerun cancel delete | * | deploy/workflow*
gh > auth > status | * | text*
gh > api | -X=:method --method=:method -f=:field -F=:field --field=:field --raw-field=:field --input=:input -H=
    --header= -i --include -q= --jq= -t= --template= --paginate --slurp --silent --hostname= -p= --preview= --cache=
    | @api
git | + -C=:cwd --no-pager -P -p --paginate --no-optional-locks --literal-pathspecs --version:harmless
    --help:harmless -v:harmless -h:harmless | @sub
git > status rev-parse describe ls-files ls-tree rev-list merge-base name-rev for-each-ref shortlog count-objects
    cherry version check-ignore show-ref show-branch verify-commit verify-tag | * !output !O !open-files-in-pager |
    text*
git > log | --oneline -n= -1 -2 -3 -4 -5 -10 -20 --graph --all --decorate? --stat? --name-only --name-status
    --since= --until= --after= --before= --author= --grep= --format= --pretty? --abbrev-commit --reverse
    --max-count= --follow --merges --no-merges --date= --first-parent --no-color --color? --shortstat --numstat
    --branches? --tags? --remotes? -i -p:read/anywhere -u:read/anywhere --patch:read/anywhere -S= -G= -L=:refuse |
    text*
git > diff show blame annotate cat-file grep | * !output !O !open-files-in-pager !ext-diff !textconv !filters |
    text* | read/anywhere
git > add stage | & -n:dry --dry-run:dry -v --verbose -f --force -i:refuse --interactive:refuse -p:refuse
    --patch:refuse -e:refuse --edit:refuse -u:stage/anywhere --update:stage/anywhere -A:stage/anywhere
    --all:stage/anywhere --no-all -N --intent-to-add --sparse --refresh --ignore-errors --ignore-missing
    --ignore-removal --renormalize --chmod=:refuse --pathspec-from-file=:refuse --pathspec-file-nul |
    stage:recursive*
git > commit | -m= -a -s -S? -n -q -v -F=:read -C= -c= -t=:read --message= --all --amend --no-edit --no-verify
    --signoff --allow-empty --allow-empty-message --author= --date= --fixup= --squash= --file=:read --quiet
    --dry-run:dry --gpg-sign? --no-gpg-sign --reset-author | text* | commit/repository
git > fetch | -a -p -t -f -k -n -q -v --all --prune --tags --no-tags --force --depth= --unshallow --deepen= --quiet
    --verbose --dry-run --jobs= -j= --recurse-submodules?:refuse | @fetch
git > pull | -r? -q -v --rebase? --ff-only --no-rebase --ff --no-ff --all --tags --prune --force -f --depth=
    --autostash --no-edit --no-commit --squash --quiet --allow-unrelated-histories | @pull
git > clone | -q -v -n -b= -o= --branch= --depth= --single-branch --no-single-branch --no-checkout --bare --mirror
    --origin= --no-tags --quiet --filter= --sparse --no-local --progress --shallow-since= | @clone
git > init | -q -b= --initial-branch= --bare --quiet | create
git > push | & -n:dry --dry-run:dry -f:force --force:force --force-with-lease?:force --force-if-includes -d:delete
    --delete:delete --all:all --branches:all --mirror:everything --tags:all --follow-tags:all --prune:everything -u
    --set-upstream -q --quiet -v --verbose --progress --no-verify --verify --porcelain --atomic --no-atomic --thin
    --no-thin --no-force-with-lease --no-force-if-includes --signed? --no-signed -4 -6 --ipv4 --ipv6 -o=
    --push-option= --repo=:remote --recurse-submodules=:all --no-recurse-submodules --receive-pack=:refuse
    --exec=:refuse | @push
git > branch | -d:delete -D:delete --delete:delete -r -a -l:list --list:list --all --remotes -v:list -vv:list
    --show-current:list --contains?:list --no-contains?:list --merged?:list --no-merged?:list --sort=:list
    --format=:list --points-at=:list -m:move -M:move --move:move -c:copy -C:copy --copy:copy -f --force -u=:config
    --set-upstream-to=:config --unset-upstream:config --track? -t --no-track -q --quiet -i --ignore-case --column?
    --no-column --color? --no-color --abbrev? --create-reflog | @branch
git > tag | -d:delete --delete:delete -l:list --list:list -n?:list --contains?:list --no-contains?:list
    --merged?:list --no-merged?:list --points-at=:list --sort=:list --format=:list -v:list --verify:list -a -s -u=
    --annotate --sign --local-user= -m= --message= -F=:read --file=:read -f --force --no-sign --cleanup= -i
    --ignore-case --column? --color? --create-reflog | @branch
git > checkout switch | & -b=:new -B=:new -c=:new -C=:new --create=:new --force-create=:new -f -q -m -d -l -t
    --force --quiet --merge --detach --track? --no-track --orphan=:new --ours --theirs -p:refuse --patch:refuse
    --discard-changes --guess --no-guess --progress --no-progress --conflict= --ignore-skip-worktree-bits
    --ignore-other-worktrees --overlay --no-overlay --recurse-submodules?:refuse --no-recurse-submodules
    --overwrite-ignore --no-overwrite-ignore --pathspec-from-file=:refuse --pathspec-file-nul | @checkout
git > restore | -q -S:staged -W:worktree -s= --staged:staged --worktree:worktree --source= --quiet --ours --theirs
    --progress --no-overlay --overlay -p:refuse --patch:refuse | @restore
git > reset | -q --hard:write/anywhere --soft --mixed --keep:write/anywhere --merge:write/anywhere --quiet -N |
    text* | write/ref
git > clean | & -n:dry --dry-run:dry -f -d -x -X -q -e= --force --quiet --exclude= -i:refuse --interactive:refuse |
    @clean
git > rm | & -n:dry --dry-run:dry -f -r:recursive -q --force --quiet --cached:cached --ignore-unmatch --sparse
    --pathspec-from-file=:refuse --pathspec-file-nul | @gitrm
git > mv | -n:dry --dry-run:dry -f -k -v --force --verbose | @move
git > stash | + | @sub-or-save
git > stash > drop clear | -q --quiet | delete/stash
git > stash > pop apply branch | -q --quiet --index | text* | write/anywhere
git > stash > push save | -u -a -k -q -m= --include-untracked --all --keep-index --message= --quiet --staged | text*
    | write/anywhere
git > stash > list show | * !output !ext-diff !textconv | text*
git > merge cherry-pick revert | -m= -n -e -s= -X= -q -v -x --no-ff --ff-only --ff --squash --no-commit --no-edit
    --abort --continue --skip --message= --no-verify --mainline= --quiet --allow-unrelated-histories --signoff |
    text* | commit/repository write/anywhere
git > rebase | -q -v --onto= --abort --continue --skip --autostash --no-autostash --root --quiet --rebase-merges? |
    text* | commit/repository write/anywhere
git > apply | -p= -R --reverse --check:dry --stat:dry --index --cached --3way -3 --whitespace= -v | read* |
    write/anywhere
git > remote | + -v --verbose | @sub-or-list
git > remote > show get-url | -n --all --push | text*
git > remote > add set-url rename remove rm set-head prune update | -f -t= -m= --push --add --delete -a -d -p
    --prune --tags --no-tags | configure/remote text*
git > config | --get:list --get-all:list --get-regexp:list -l:list --list:list --global --local --system
    --show-origin --name-only -z | @config
git > worktree > list | --porcelain -v -z | text*
git > reflog | + | @sub-or-list
git > reflog > show exists | * !output !O !ext-diff !textconv | text*
git > reflog > delete expire | * | text* | delete/ref
git > archive | --format= -o=:write --output=:write --prefix= -v -9 | text* | read/anywhere
git > format-patch | * !output !ext-diff !textconv | text* | write/anywhere
git > bisect > start good bad reset skip log | * | text* | write/anywhere
"""
"""The table."""
