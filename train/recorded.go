package train

import (
	"fmt"
	"strings"
)

// line writes all options in one line, as checkpoints and states record them.
func (c *Config) line() string {
	var parts []string
	for _, o := range c.Options() {
		parts = append(parts, o.Key+"="+o.Value.String())
	}
	return strings.Join(parts, " ")
}

// readLine reads what line wrote. An option that is not there, because it is newer, has its default.
func readLine(line string) (Config, error) {
	c := Default()
	for part := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(part, "=")
		o, ok := c.option(key)
		if !ok {
			return c, fmt.Errorf("there is no option %.80q in this version of mquine", key)
		}
		if err := o.Value.Set(value); err != nil {
			return c, fmt.Errorf("%s %.80q: %w", key, value, err)
		}
	}
	return c, nil
}

// differences names the options in which c differs from another configuration, with both values.
func (c Config) differences(other Config) string {
	var differences []string
	others := other.Options()
	for i, o := range c.Options() {
		if mine, theirs := o.Value.String(), others[i].Value.String(); mine != theirs {
			differences = append(differences, fmt.Sprintf("%s is %s and was %s", o.Key, mine, theirs))
		}
	}
	return strings.Join(differences, ", ")
}
