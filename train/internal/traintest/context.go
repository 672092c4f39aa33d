package traintest

import "context"

// HookedContext calls Hook before each answer of Err, which packages input and checkpoint ask for before they open or
// write a file.
type HookedContext struct {
	context.Context
	Hook func()
}

// Err returns the error of the context.
func (c HookedContext) Err() error {
	c.Hook()
	return c.Context.Err()
}
