package upstream

// preset is what is particular about a product.
type preset struct {
	title string
}

var presets = map[string]preset{}
