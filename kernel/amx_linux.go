//go:build amd64 && !noasm

package kernel

import "golang.org/x/sys/unix"

// requestAMX asks Linux for permission to use the tiles of AMX and reports whether it was granted.
// Once a thread has used a tile, the operating system saves 8 KiB more of the thread's state at every
// context switch. Linux before 5.16 and some virtual machines refuse permission.
func requestAMX() bool {
	const (
		requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
		tileData          = 18     // XFEATURE_XTILEDATA
	)
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
