package upstream

// ParsePage is parsePage.
var ParsePage = parsePage
