package kernel

// What tests see of this package.

// Falling tells that a score of c never rises as coordinates are added.
func Falling(c Comparison) bool { return c.falling }

// ProductLimit is Dot's and Phase's Limit.
const ProductLimit = productLimit
