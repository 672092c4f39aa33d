package text

import (
	"fmt"
	"strings"
)

// Name returns the name of the enumeration value v, or "kind(v)" if v has no name.
func Name[T ~uint8](names []string, v T, kind string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}

// ParseName returns the enumeration value with the given name. The error for an unknown name lists
// the known names.
func ParseName[T ~uint8](names []string, name, kind string) (T, error) {
	for v, n := range names {
		if n == name {
			return T(v), nil
		}
	}
	last := len(names) - 1
	return 0, fmt.Errorf("unknown %s %q: choose %s or %s", kind, name, strings.Join(names[:last], ", "), names[last])
}

// DataSet returns "data set" and the name, or "the data set" if it has none.
func DataSet(name string) string {
	if name == "" {
		return "the data set"
	}
	return "data set " + name
}
