package text

// WithLabel returns an identifier with its readable label in parentheses, if it has one.
func WithLabel(identifier, label string) string {
	if label == "" {
		return identifier
	}
	return identifier + " (" + label + ")"
}
