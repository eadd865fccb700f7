package catalogue_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"gatehouse.example/storage/catalogue"
)

// heads are heads of rows in the form that is written.
func heads() map[string][]byte {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	full := catalogue.Entry{
		Status: "deprecated", StatusMessage: "Use another one.", Published: at, Updated: at.Add(time.Hour), StatusChanged: at.Add(time.Second),
		Latest: true, Origin: "https://registry.example.com", Flags: []string{"a", "b c"}, Server: []byte(`{}`), Meta: []byte(`{"a":1}`),
	}
	least := catalogue.Entry{Status: "active", Server: []byte(`{}`)}
	return map[string][]byte{
		"both": catalogue.RowHeadOf(&full, &least), "current": catalogue.RowHeadOf(&least, nil), "previous": catalogue.RowHeadOf(nil, &full),
		"none": catalogue.RowHeadOf(nil, nil), "equal records": catalogue.RowHeadOf(&full, &full),
	}
}

// TestRowHeadsAreReadHere: every head in the form that is written is read without encoding/json, and
// means the same to it; a head in which anything is missing is left to it.
func TestRowHeadsAreReadHere(t *testing.T) {
	for name, data := range heads() {
		here, there, err := catalogue.RowHead(data)
		if here == nil || err != nil || !reflect.DeepEqual(here, there) {
			t.Errorf("%s: %s is %+v, encoding/json says %+v, %v", name, data, here, there, err)
		}
		for n := range data {
			if here, _, _ := catalogue.RowHead(data[:n]); here != nil {
				t.Errorf("%s is read", data[:n])
			}
		}
	}
	escaped := catalogue.Entry{Status: "active", StatusMessage: "Größer & <b>", Server: []byte(`{}`)}
	if here, _, err := catalogue.RowHead(catalogue.RowHeadOf(&escaped, nil)); here != nil || err != nil {
		t.Errorf("a text that is not ASCII is %+v, %v", here, err)
	}
}

// FuzzRowHead: what is read here is what encoding/json reads.
func FuzzRowHead(f *testing.F) {
	for _, data := range heads() {
		f.Add(data)
		f.Add([]byte(string(data) + " "))
		f.Add([]byte(string(data) + "x"))
		f.Add(bytes.Replace(data, []byte(`"seq":`), []byte(`"seq":0`), 1))
		f.Add(bytes.Replace(data, []byte(`"latest":true`), []byte(`"latest":false`), 1))
		f.Add(bytes.Replace(data, []byte(`Z"`), []byte(`+01:00"`), 1))
		f.Add(bytes.Replace(data, []byte(`"a"`), []byte(`"\u0061"`), 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		here, there, err := catalogue.RowHead(data)
		if here == nil {
			return
		}
		if err != nil || !reflect.DeepEqual(here, there) {
			t.Errorf("%s is %+v, encoding/json says %+v, %v", data, here, there, err)
		}
	})
}
