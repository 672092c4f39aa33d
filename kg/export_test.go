package kg

// Published is published, for a test that needs package catalogue, which imports this package.
var Published = published
