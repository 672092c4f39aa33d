package kg

// Published lets the test of agreement with package catalogue, which imports this one, see it.
var Published = published
