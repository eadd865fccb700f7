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

// BuildsWaiting returns the number of requests that wait for a place to build an answer, and how many
// answers are built at a time.
func (h *Handler) BuildsWaiting() (waiting, places int) {
	return h.builder.places.Waiting(), buildPlaces()
}

// PicturesPending returns the number of icons being fetched.
func (h *Handler) PicturesPending() int { return h.icons.Pending() }
