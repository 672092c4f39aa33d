package text

import (
	"fmt"
	"strings"
)

// Name returns the name of value v of an enumeration, or kind(v) for a value that has none.
func Name[T ~uint8](names []string, v T, kind string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}

// ParseName is the inverse of Name. The error for another name says what kind it is and lists the names.
func ParseName[T ~uint8](names []string, name, kind string) (T, error) {
	for v, n := range names {
		if n == name {
			return T(v), nil
		}
	}
	last := len(names) - 1
	return 0, fmt.Errorf("unknown %s %q: choose %s or %s", kind, name, strings.Join(names[:last], ", "), names[last])
}
