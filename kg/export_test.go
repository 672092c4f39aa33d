package kg

// Published exports the numbers to a test that needs package catalogue, which imports this package.
var Published = published
