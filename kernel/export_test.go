package kernel

// What tests see of this package.
var (
	Falling = Comparison.falling
	BytesOf = bytesOf
)
