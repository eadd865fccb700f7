package appendjson_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"gatehouse.example/internal/appendjson"
)

// inner is embedded in outer.
type inner struct {
	Text string   `json:"text,omitempty"`
	List []string `json:"list,omitempty"`
}

func (i inner) append(dst []byte) ([]byte, error) {
	o := appendjson.Begin(dst)
	o.TextIfAny("text", i.Text)
	o.ListIfAny("list", i.List)
	return o.End()
}

type outer struct {
	First string `json:"first,omitempty"`
	inner
	Number int64          `json:"number"`
	Flag   bool           `json:"flag,omitempty"`
	At     time.Time      `json:"at,omitzero"`
	Bytes  []byte         `json:"bytes,omitempty"`
	Any    map[string]any `json:"any,omitempty"`
	Inner  inner          `json:"inner"`
}

func (o outer) append(dst []byte) ([]byte, error) {
	out := appendjson.Begin(dst)
	out.TextIfAny("first", o.First)
	out.Embed(o.inner.append)
	out.Number("number", o.Number)
	out.FlagIfSet("flag", o.Flag)
	out.TimeIfAny("at", o.At)
	out.BytesIfAny("bytes", o.Bytes)
	if len(o.Any) > 0 {
		out.Any("any", o.Any)
	}
	out.Value("inner", o.Inner.append)
	return out.End()
}

// TestObject: objects have the bytes of encoding/json, whichever members they have.
func TestObject(t *testing.T) {
	full := inner{Text: "<a>", List: []string{"b", ""}}
	for _, o := range []outer{
		{}, {First: "x"}, {inner: full}, {First: "x", inner: full, Inner: full},
		{Number: math.MinInt64, Flag: true, At: time.Unix(1, 5), Bytes: []byte{0}, Any: map[string]any{"z": 1, "a": nil}},
	} {
		got, err := o.append([]byte("["))
		same(t, o, err, got[1:])
	}
	late := outer{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	if _, err := late.append(nil); err == nil {
		t.Error("a year of five digits was appended")
	}
	wrong := errors.New("wrong")
	fails := func(dst []byte) ([]byte, error) { return append(dst, "{}"...), wrong }
	for name, add := range map[string]func(*appendjson.Object){
		"Embed": func(o *appendjson.Object) { o.Embed(fails) },
		"Value": func(o *appendjson.Object) { o.Value("x", fails) },
		"Any":   func(o *appendjson.Object) { o.Any("x", json.RawMessage("{")) },
	} {
		o := appendjson.Begin(nil)
		add(&o)
		if _, err := o.End(); err == nil {
			t.Errorf("%s: the error is lost", name)
		}
	}
}
