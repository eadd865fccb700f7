package message_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gatehouse.example/message"
)

func TestIcon(t *testing.T) {
	const text = `{"src":"https://example.com/icon.png","mimeType":"image/png","sizes":["48x48","any"],"theme":"dark"}`
	var icon message.Icon
	if err := json.Unmarshal([]byte(text), &icon); err != nil {
		t.Fatal(err)
	}
	if err := icon.Validate(); err != nil {
		t.Error(err)
	}
	if back, err := json.Marshal(icon); err != nil || string(back) != text {
		t.Errorf("%s, %v", back, err)
	}
}

func TestIconRefused(t *testing.T) {
	for what, icon := range map[string]message.Icon{
		"src":           {},
		`"48"`:          {Src: "s", Sizes: []string{"48"}},
		`"0x48"`:        {Src: "s", Sizes: []string{"16x16", "0x48"}},
		`"48x48 "`:      {Src: "s", Sizes: []string{"48x48 "}},
		`"ANY"`:         {Src: "s", Sizes: []string{"ANY"}},
		`"blue"`:        {Src: "s", Theme: "blue"},
		`"48X48"`:       {Src: "s", Sizes: []string{"48X48"}},
		`"100000x1"`:    {Src: "s", Sizes: []string{"100000x1"}},
		`"48x48\n48x4"`: {Src: "s", Sizes: []string{"48x48\n48x4"}},
	} {
		if err := icon.Validate(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: %v; want an error about %s", icon, err, what)
		}
	}
	if err := (message.Icon{Sizes: []string{"x"}, Theme: "x"}).Validate(); strings.Count(err.Error(), "icon:") != 3 {
		t.Errorf("not every mistake is reported: %v", err)
	}
}
