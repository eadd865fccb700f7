package serve

import (
	"gatehouse.example/storage/catalogue"
)

// ForgedCursor returns a cursor for a position in the list of all servers, made with another key
// than that of the catalogue.
func ForgedCursor(key []byte, place string) string {
	q, _ := parseQuery("")
	return sealCursor(key, q.selection(), place)
}

// AppendItem returns a row in a form of the parameter shape.
func (h *Handler) AppendItem(e catalogue.Entry, form string) ([]byte, error) {
	s, err := parseShape(form)
	if err != nil {
		return nil, err
	}
	return h.appendItem(nil, e, s)
}

// PicturesPending returns the number of icons being fetched.
func (h *Handler) PicturesPending() int { return h.icons.Pending() }
