#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ramdisk.sh SUITE SCRATCH OUT PIP AGENT: OUT/ramdisk and OUT/kernel, in which AGENT, a
# requirement in pip's format, runs.  The kernel and its modules are those of SCRATCH/disk.
set -euo pipefail
suite=$1 scratch=$2 out=$3 pip=$4 agent=$5
here=$(dirname "$(readlink -f "$0")")
root=$scratch/ramdisk
export PATH=$PATH:/usr/sbin:/sbin

# What the agent runs, the shells of a rescue, and nothing that starts by itself.
mmdebstrap --quiet --variant=minbase --mode=root \
    --dpkgopt=force-unsafe-io \
    --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --include=udev,kmod,iproute2,busybox,procps,psmisc,file,passwd,openssl,ca-certificates \
    --include=python3,qemu-utils,parted,gdisk,fdisk,dosfstools,e2fsprogs,util-linux \
    --include=bsdextrautils,mdadm,hdparm,nvme-cli,lsscsi,pciutils,lshw,dmidecode,ethtool \
    --include=efibootmgr,dropbear-bin \
    "$suite" "$root"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* \
    "$root"/usr/share/{i18n,zoneinfo,lintian,bash-completion,perl5} \
    "$root"/usr/lib/x86_64-linux-gnu/gconv
"$pip" install --quiet --no-input --target "$root/opt/agent" "$agent"
rm -rf "$root/opt/agent/ironic_python_agent/tests"
# Not by PYTHONPATH: the agent runs some of its programs in an environment of their own.
echo /opt/agent >"$root/usr/lib/python3/dist-packages/agent.pth"

# Only the modules that the machine needs, with those that they need.
version=$(basename "$scratch"/disk/lib/modules/*)
for module in virtio_pci virtio_blk virtio_net virtio_rng ata_piix sr_mod isofs vfat loop \
    button evdev ext4 nls_ascii nls_cp437 dm_mod raid1 efivarfs; do
    modprobe --dirname "$scratch/disk" --set-version "$version" --show-depends "$module"
done | sed -nE "s|^insmod $scratch/disk/([^ ]*).*|\1|p" | sort -u >"$scratch/modules"
tar -C "$scratch/disk" -c -T "$scratch/modules" "lib/modules/$version"/modules.{order,builtin} \
    "lib/modules/$version/modules.builtin.modinfo" | tar -C "$root" --keep-directory-symlink -x
depmod --basedir "$root" "$version"

install -m 755 "$here/ramdisk-init" "$root/init"
# There is no init that Debian's could ask.
for letter in poweroff:o reboot:b; do
    rm -f "$root/sbin/${letter%:*}"
    printf '#!/bin/sh\nsync\necho %s >/proc/sysrq-trigger\nsleep 60\n' "${letter#*:}" \
        >"$root/sbin/${letter%:*}"
    chmod 755 "$root/sbin/${letter%:*}"
done
cp "$scratch"/disk/boot/vmlinuz-* "$out/kernel"
chmod 644 "$out/kernel"
(cd "$root" && find . -print0 | cpio --null --create --format=newc --quiet) \
    | zstd -q -9 -T0 -f -o "$out/ramdisk"
