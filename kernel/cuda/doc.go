// Package cuda runs kernels on NVIDIA GPUs through the CUDA driver alone: libcuda is opened at run
// time with dlopen, without cgo and without a CUDA installation, and the kernels are PTX embedded in
// the program, which the driver compiles for the card it finds.
//
// The driver layer (List, Open, Device, Memory, Pinned, Stream, Event, Module) knows nothing about
// what it runs. On top of it stand the kernels, with their argument structures: Screen and the rest
// in the files named after them.
//
// Every device is served by one goroutine locked to its thread, which makes all calls; methods may
// be called from any goroutine. What a Stream is told to do happens later and in order: memory that
// it uses must stay as it is until an Event recorded after it has passed.
package cuda

// LibraryEnv names the environment variable with the path of another driver library.
const LibraryEnv = "MQUINE_LIBCUDA"

// The oldest driver and the oldest cards that the embedded PTX (ISA 7.8, compute_80) runs on.
const (
	// MinDriver is CUDA 11.8, in the driver's own notation.
	MinDriver = 11080
	// MinCapability is the compute capability 8.0, Ampere.
	MinCapability = 80
)
