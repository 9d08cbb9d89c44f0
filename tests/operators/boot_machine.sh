# boot_machine.sh FOLDER TREE NAME: becomes systemd, as PID 1 of a machine made of namespaces, on top of a Debian tree that it does not change.
# Started by machines.py in new namespaces, and in a cgroup of its own.
set -eu
folder=$1 tree=$2 name=$3
root=$folder/root
mount --make-rprivate /
mkdir -p "$root" "$folder/upper" "$folder/work"
mount -t overlay -o "lowerdir=$tree,upperdir=$folder/upper,workdir=$folder/work" minova "$root"
mount -t proc proc "$root/proc"
# Settings of the kernel that are not of the network belong to the real machine.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount --bind "$root/proc/sys/net" "$root/proc/sys/net"
mount -o remount,bind,rw "$root/proc/sys/net"
mount -t sysfs -o ro sysfs "$root/sys"
if [ -d /sys/fs/cgroup/systemd ]; then
    mount -t tmpfs -o mode=755 cgroup "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/systemd"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
else
    mount -t cgroup2 cgroup "$root/sys/fs/cgroup"
fi
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
hostname "$name"
ip link set lo up
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l .old
exec env -i container=minova PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=journal
