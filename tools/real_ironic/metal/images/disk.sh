#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# disk.sh SUITE SCRATCH OUT: the disk image that servers are built with, OUT/disk.raw and
# OUT/disk.qcow2, its file system alone, OUT/part.raw, and its kernel with the modules,
# SCRATCH/disk.  Debian with cloud-init, booted by BIOS or UEFI.  No loop device: a file system
# is made from a directory, and GRUB is put in place by the two words of its own that say where it
# is.  OUT/esp.img is what boots the ramdisk from a CD by UEFI.
set -euo pipefail
suite=$1 scratch=$2 out=$3
root=$scratch/disk
export PATH=$PATH:/usr/sbin:/sbin

mmdebstrap --quiet --variant=minbase --mode=root \
    --dpkgopt=force-unsafe-io \
    --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --setup-hook='d=$1/etc/initramfs-tools/conf.d; mkdir -p $d; echo MODULES=list >$d/metal' \
    --setup-hook='d=$1/usr/share/initramfs-tools/modules.d; mkdir -p $d
        printf "%s\n" virtio_pci virtio_blk virtio_net ext4 >$d/metal' \
    --include=systemd-sysv,dbus,libpam-systemd,udev,kmod,iproute2,procps,sudo,eatmydata \
    --include=cloud-init,cloud-guest-utils,fdisk,e2fsprogs,ifupdown,isc-dhcp-client,netbase \
    --include=openssh-server,initramfs-tools,zstd,linux-image-cloud-amd64 \
    --include=grub2-common,grub-pc-bin \
    "$suite" "$root"

echo 'LABEL=root / ext4 errors=remount-ro 0 1' >"$root/etc/fstab"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
echo localhost >"$root/etc/hostname"
rm -f "$root/etc/resolv.conf"
: >"$root/etc/resolv.conf"
cat >"$root/etc/cloud/cloud.cfg.d/99_metal.cfg" <<'END'
datasource_list: [ConfigDrive, None]
apt_preserve_sources_list: true
package_update: false
ssh_genkeytypes: [ed25519]
END
# Nothing of Debian's housekeeping while somebody measures.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
    e2scrub_all.timer e2scrub_reap.service fstrim.timer; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*

kernel=$(basename "$root"/boot/vmlinuz-*)
# With its modules a partition image boots also where the agent installs no boot loader.
mkdir -p "$root/boot/grub"
cp -r "$root/usr/lib/grub/i386-pc" "$root/boot/grub/"
# What the agent has a configuration made of, when it does.
cat >"$root/etc/default/grub" <<'END'
GRUB_TIMEOUT=0
GRUB_CMDLINE_LINUX="console=tty0 console=ttyS0,115200 unknown_nmi_panic=1 panic=10"
GRUB_TERMINAL="console serial"
GRUB_DISABLE_OS_PROBER=true
END
cat >"$root/boot/grub/grub.cfg" <<END
serial --unit=0 --speed=115200
terminal_output console serial
linux /boot/$kernel root=LABEL=root ro console=tty0 console=ttyS0,115200 unknown_nmi_panic=1 panic=10
initrd /boot/${kernel/vmlinuz/initrd.img}
boot
END
cat >"$scratch/early.cfg" <<'END'
search --no-floppy --label root --set=root
set prefix=($root)/boot/grub
configfile /boot/grub/grub.cfg
END
grub-mkimage -O i386-pc -p /boot/grub -c "$scratch/early.cfg" -o "$scratch/core.img" \
    biosdisk part_gpt ext2 search search_label configfile normal linux serial terminal boot
cat >"$scratch/cd.cfg" <<'END'
search --no-floppy --label VMEDIA_BOOT_ISO --set=root
set prefix=($root)/boot/grub
configfile ($root)/EFI/BOOT/grub.cfg
END

# esp FILE MEGABYTES CONFIGURATION: an EFI system partition whose GRUB begins with that.
esp() {
    grub-mkimage -O x86_64-efi -p /boot/grub -c "$3" -o "$scratch/bootx64.efi" \
        part_gpt part_msdos fat iso9660 ext2 search search_label search_fs_file configfile \
        normal linux serial terminal boot echo test
    rm -f "$1"
    truncate -s "$2M" "$1"
    mkfs.vfat -n ESP "$1" >/dev/null
    mmd -i "$1" ::EFI ::EFI/BOOT
    mcopy -i "$1" "$scratch/bootx64.efi" ::EFI/BOOT/BOOTX64.EFI
}
esp "$out/esp.img" 8 "$scratch/cd.cfg"
esp "$scratch/esp.img" 16 "$scratch/early.cfg"

megabytes=$(($(du -sm "$root" | cut -f1) * 5 / 4 + 64))
rm -f "$out/part.raw" "$out/disk.raw"
truncate -s "${megabytes}M" "$out/part.raw"
mkfs.ext4 -q -L root -d "$root" "$out/part.raw"
truncate -s "$((megabytes + 20))M" "$out/disk.raw"
sgdisk --new 1:2048:+1M --typecode 1:EF02 --new 2:4096:+16M --typecode 2:EF00 \
    --new 3:36864:+"${megabytes}M" --typecode 3:8300 "$out/disk.raw" >/dev/null
dd if="$scratch/esp.img" of="$out/disk.raw" bs=1M seek=2 conv=notrunc,sparse status=none
dd if="$out/part.raw" of="$out/disk.raw" bs=1M seek=18 conv=notrunc,sparse status=none
python3 - "$out/disk.raw" "$scratch/core.img" <<'END'
import struct
import sys

FIRST = 2048  # the sector that the BIOS boot partition begins at
boot = bytearray(open("/usr/lib/grub/i386-pc/boot.img", "rb").read(440))
core = bytearray(open(sys.argv[2], "rb").read())
struct.pack_into("<Q", boot, 0x5C, FIRST)  # boot.img: where core.img is
struct.pack_into("<Q", core, 0x1F4, FIRST + 1)  # core.img: where its second sector is
with open(sys.argv[1], "r+b") as disk:
    disk.write(boot)
    disk.seek(FIRST * 512)
    disk.write(core)
END
qemu-img convert -c -O qcow2 "$out/disk.raw" "$out/disk.qcow2"
(cd "$out" && sha256sum disk.raw disk.qcow2 part.raw >SHA256SUMS)
