// Package cuda runs kernels on NVIDIA GPUs through the CUDA driver alone. It opens libcuda at run
// time with dlopen, without cgo and without a CUDA installation. The kernels are PTX embedded in
// the program; the driver compiles them for the card.
//
// The kernels have been tested on an NVIDIA H200; CI tests them on a stand-in driver (docs/cuda.md).
//
// The package has two layers. The driver layer (List, Open, Device, Memory, Pinned, Stream, Event) is
// independent of the kernels. Above it are the kernels with their argument structures: Screens and
// Screen, Stages and Decide, Towers and Construct. Start with Open.
//
// Each open device has one goroutine, locked to its thread, that makes all calls to the driver for
// it. Methods may be called from any goroutine, but only one goroutine at a time may call the methods
// of a Stream and of the events that it records: a Stream notes its work until Flush, or Wait of one
// of these events, passes it to the driver. The device then works asynchronously and in order. Do not
// touch memory that the work uses until an Event recorded after the work has passed.
package cuda

// LibraryEnv is the environment variable that contains the path of a driver library to use instead
// of libcuda.so.1.
const LibraryEnv = "MQUINE_LIBCUDA"

// These are the oldest driver and the oldest compute capability that run the embedded PTX (ISA 7.8,
// compute_80).
const (
	// MinDriver is CUDA 11.8 in the notation of the driver.
	MinDriver = 11080
	// MinCapability is the compute capability 8.0, Ampere.
	MinCapability = 80
)
