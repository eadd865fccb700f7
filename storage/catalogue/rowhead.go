package catalogue

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"gatehouse.example/storage"
)

// The head of a row is read with each row of each page. Here it is read without reflection, in the
// bytes that encoding/json writes for a rowHead. That reads whatever has another form: a head with a
// text that is escaped or not ASCII, of another program, or damaged.

// readRowHead reads the head of a row, with its versions in room if the head has the form that is
// written.
func readRowHead(room *rowRoom, data []byte) (rowHead, error) {
	if h, ok := parseRowHead(room, data); ok {
		return h, nil
	}
	var h rowHead
	if err := json.Unmarshal(data, &h); err != nil {
		return rowHead{}, fmt.Errorf("storage/catalogue: row: %w: %w", storage.ErrRecord, err)
	}
	return h, nil
}

// parseRowHead reads a head in the form that is written, and returns false for other forms.
func parseRowHead(room *rowRoom, data []byte) (h rowHead, ok bool) {
	r := headReader{rest: data}
	r.must("{")
	if r.has(`"current":`) {
		h.Current = r.version(&room[0])
		if r.has(`,"previous":`) {
			h.Previous = r.version(&room[1])
		}
	} else if r.has(`"previous":`) {
		h.Previous = r.version(&room[1])
	}
	r.must("}")
	if r.wrong || len(r.rest) > 0 {
		return rowHead{}, false
	}
	return h, true
}

// headReader reads the head of a row. After anything else, wrong is set.
type headReader struct {
	rest  []byte
	wrong bool
}

// has moves behind a text if that comes next.
func (r *headReader) has(text string) bool {
	if len(r.rest) < len(text) || string(r.rest[:len(text)]) != text {
		return false
	}
	r.rest = r.rest[len(text):]
	return true
}

func (r *headReader) must(text string) {
	if !r.has(text) {
		r.wrong = true
	}
}

// version reads a rowVersion into v and returns v. Its members are in the order of its fields.
func (r *headReader) version(v *rowVersion) *rowVersion {
	*v = rowVersion{}
	r.must(`{"seq":`)
	v.Seq = r.number(64)
	r.must(`,"stamp":`)
	v.Stamp = r.number(64)
	r.textIfAny(`,"status":`, &v.Status)
	r.textIfAny(`,"status_message":`, &v.StatusMessage)
	r.timeIfAny(`,"published":`, &v.Published)
	r.timeIfAny(`,"updated":`, &v.Updated)
	r.timeIfAny(`,"status_changed":`, &v.StatusChanged)
	v.Latest = r.has(`,"latest":true`)
	r.textIfAny(`,"origin":`, &v.Origin)
	if r.has(`,"flags":[`) {
		v.Flags = r.texts()
	}
	r.numberIfAny(`,"size":`, &v.Size)
	r.numberIfAny(`,"server":`, &v.ServerLen)
	r.numberIfAny(`,"meta":`, &v.MetaLen)
	r.must("}")
	return v
}

// number reads a number of so many bits without a sign, a fraction and leading zeros.
func (r *headReader) number(bits int) uint64 {
	n := 0
	for n < len(r.rest) && '0' <= r.rest[n] && r.rest[n] <= '9' {
		n++
	}
	value, err := strconv.ParseUint(string(r.rest[:n]), 10, bits)
	if err != nil || n > 1 && r.rest[0] == '0' {
		r.wrong = true
		return 0
	}
	r.rest = r.rest[n:]
	return value
}

func (r *headReader) numberIfAny(key string, to *int) {
	if r.has(key) {
		*to = int(r.number(strconv.IntSize - 1))
	}
}

// quoted returns the next string with its quotes, nil if it has bytes that do not stand for
// themselves.
func (r *headReader) quoted() []byte {
	if len(r.rest) == 0 || r.rest[0] != '"' {
		r.wrong = true
		return nil
	}
	for end := 1; end < len(r.rest); end++ {
		switch c := r.rest[end]; {
		case c == '"':
			text := r.rest[:end+1]
			r.rest = r.rest[end+1:]
			return text
		case c < ' ' || c > '~' || c == '\\':
			r.wrong = true
			return nil
		}
	}
	r.wrong = true
	return nil
}

// text reads a string.
func (r *headReader) text() string {
	quoted := r.quoted()
	if len(quoted) < 2 {
		return ""
	}
	switch plain := quoted[1 : len(quoted)-1]; string(plain) {
	case "active": // the status of most rows
		return "active"
	default:
		return string(plain)
	}
}

func (r *headReader) textIfAny(key string, to *string) {
	if r.has(key) {
		*to = r.text()
	}
}

// texts reads the rest of a list of strings that is not empty.
func (r *headReader) texts() []string {
	list := []string{r.text()}
	for r.has(",") && !r.wrong {
		list = append(list, r.text())
	}
	r.must("]")
	return list
}

func (r *headReader) timeIfAny(key string, to *time.Time) {
	if !r.has(key) {
		return
	}
	if quoted := r.quoted(); quoted == nil || to.UnmarshalJSON(quoted) != nil {
		r.wrong = true
	}
}
