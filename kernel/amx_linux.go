//go:build amd64 && !noasm

package kernel

import "golang.org/x/sys/unix"

// allowTiles asks Linux to let this process use the tiles of AMX, 8 KiB of state that a thread has from its
// first use on; systems before 5.16 and some virtual machines do not.
func allowTiles() bool {
	const (
		requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
		tileData          = 18     // XFEATURE_XTILEDATA
	)
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
