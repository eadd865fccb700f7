package upstream

// ParsePage reads a list.
var ParsePage = parsePage
