package serve

import (
	"gatehouse.example/storage/catalogue"
)

// ForgedCursor returns the cursor for a place in the list of all servers, made with another
// key than the catalogue's.
func ForgedCursor(key []byte, place string) string {
	q, _ := parseQuery("")
	return sealCursor(key, q.chosen(), place)
}

// AppendItem writes a row in the form that a reader asked for.
func (h *Handler) AppendItem(e catalogue.Entry, form string) ([]byte, error) {
	s, err := parseShape(form)
	if err != nil {
		return nil, err
	}
	return h.appendItem(nil, e, s)
}

// PicturesPending returns how many icons are on their way.
func (h *Handler) PicturesPending() int { return h.icons.Pending() }
