#!/bin/sh
# Stands in for `srun` with Pyxis: its options, on the real `srun`, with Apptainer for enroot. Images
# are the sandboxes in IMAGES, by the last word of their repository; a shell, without which Pyxis starts
# nothing, is lent to them.
if [ "$1" = --help ]; then
    /usr/bin/srun --help
    echo "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH"
    exit
fi
image='' mounts='' folder=/opt root='' options=''
while :; do
    case $1 in
    --container-image=*) image=${1#*=} ;;
    --container-mounts=*) mounts=${1#*=} ;;
    --container-workdir=*) folder=${1#*=} ;;
    --container-writable) root=--writable-tmpfs ;;
    --container-readonly | --no-container-mount-home) ;;
    --no-container-remap-root | --no-container-entrypoint) ;;
    --*) options="$options $1" ;;
    *) break ;;
    esac
    shift
done
name=${image##*/}
name=${name%@*}
case $image in
*#*/*@sha256:*) ;;
*) name=none ;;
esac
[ -d "IMAGES/$name" ] || exec /usr/bin/srun $options /bin/sh -c '
    echo "slurmstepd: pyxis: importing docker image: $0"
    echo "slurmstepd: error: pyxis: failed to import docker image: $0"
    echo "slurmstepd: error: pyxis:     [ERROR] URL https://r.example returned error code: 404 Not Found"
    exit 1' "$image" >&2
exec /usr/bin/srun $options /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    apptainer --silent --nocolor exec --contain --no-home --no-privs --no-eval --bind "$mounts,/bin/sh" --pwd "$folder" $root "IMAGES/$name" "$@"
