package audit_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/audit"
)

// Example shows an event as JSON.
func Example() {
	text, err := json.Marshal(audit.Event{Kind: audit.Denied, By: audit.ByPerson, Person: "sub", Client: "editor"})
	fmt.Println(string(text), err)
	// Output: {"time":"0001-01-01T00:00:00Z","kind":"denied","by":"person","person":"sub","client":"editor"} <nil>
}

// TestNoFieldTakesASecret puts secrets of each form into each text of an event.
func TestNoFieldTakesASecret(t *testing.T) {
	value := strings.Repeat("aB3-_", 9)
	for _, secret := range []string{
		"gate_rt_" + value, "gate_ac_" + value, "gate_cs_" + value, "gate_rat_" + value, "gate_iat_" + value, "gate_in_" + value, "gate_se_" + value, "gate_br_" + value, "gate_rs_" + value,
		"eyJhbGciOiJFUzI1NiJ9." + value + "." + value, "Bearer eyJhbGciOiJFUzI1NiJ9." + value, "https://example.com/?code=gate_ac_" + value + "&state=x", "gate_gate_rt_" + value,
		"https://gate_keeper.example.com/?token=gate_rt_" + value,
	} {
		var e audit.Event
		fill(reflect.ValueOf(&e).Elem(), secret)
		text, err := json.Marshal(e.Clean())
		if err != nil || strings.Contains(string(text), value) || strings.Count(string(text), audit.Hidden) < 15 {
			t.Errorf("%s: an event is %s, %v", secret, text, err)
		}
	}
	for _, plain := range []string{"gate_keeper", "gate_rt_short", "https://gate_house.example.com/a_b", "eyJ", "add_note", "eyJabcdefghij.x"} {
		if e := (audit.Event{Name: audit.Name(plain)}).Clean(); string(e.Name) != plain {
			t.Errorf("%s became %s", plain, e.Name)
		}
	}
}

// fill sets every text in a value, but the words of the vocabulary.
func fill(v reflect.Value, text string) {
	words := map[string]bool{"Kind": true, "Actor": true}
	switch {
	case v.Type() == reflect.TypeFor[netip.Prefix]() || words[v.Type().Name()]:
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && v.Type().Field(i).Name != "Time" {
				fill(v.Field(i), text)
			}
		}
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Slice:
		one := reflect.MakeSlice(v.Type(), 1, 1)
		fill(one.Index(0), text)
		v.Set(one)
	}
}

// TestEventsAreBounded: however long what a client sends is, an event is short.
func TestEventsAreBounded(t *testing.T) {
	var e audit.Event
	fill(reflect.ValueOf(&e).Elem(), strings.Repeat("\u20ac", 10_000))
	e.Resources, e.Scopes = make([]audit.Resource, 200), make([]audit.Scope, 200)
	for i := range e.Resources {
		e.Resources[i], e.Scopes[i] = audit.Resource(strings.Repeat("r", 10_000)), audit.Scope(strings.Repeat("s", 10_000))
	}
	text, err := json.Marshal(e.Clean())
	if err != nil || len(text) > 100_000 {
		t.Errorf("an event has %d bytes, %v", len(text), err)
	}
}

// TestCleanLeavesTheLists: what was recorded is cleaned, and not what its caller goes on with.
func TestCleanLeavesTheLists(t *testing.T) {
	long := audit.Resource(strings.Repeat("r", 10_000))
	e := audit.Event{Resources: []audit.Resource{long}}
	if clean := e.Clean(); clean.Resources[0] == long || e.Resources[0] != long {
		t.Errorf("cleaned has %d bytes, the list of the caller %d", len(clean.Resources[0]), len(e.Resources[0]))
	}
}

// TestNetworks: addresses of IPv4 are whole, those of IPv6 their network.
func TestNetworks(t *testing.T) {
	for from, want := range map[string]string{"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32", "2001:db8::1%eth0": "2001:db8::/64"} {
		if got := audit.NetworkOf(netip.MustParseAddr(from)); got.String() != want {
			t.Errorf("%s is of %s, want %s", from, got, want)
		}
	}
	if got := audit.NetworkOf(netip.Addr{}); got.IsValid() {
		t.Errorf("no address is of %s", got)
	}
}

// TestKindsAreClosed: every constant of the type is listed once, and explained to operators.
func TestKindsAreClosed(t *testing.T) {
	source, err := os.ReadFile("audit.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, explained, _ := strings.Cut(string(page), "\n| event | what happened |\n")
	explained, _, _ = strings.Cut(explained, "\n\n")
	seen := map[audit.Kind]int{}
	for _, kind := range audit.Kinds() {
		seen[kind]++
	}
	constants := regexp.MustCompile(`(?m)^\t\w+ +Kind += "(.*)"$`).FindAllStringSubmatch(string(source), -1)
	for _, constant := range constants {
		if kind := constant[1]; seen[audit.Kind(kind)] != 1 || kind == "" {
			t.Errorf("the kind %q is listed %d times in kinds", kind, seen[audit.Kind(kind)])
		} else if !strings.Contains(explained, "`"+kind+"`") {
			t.Errorf("docs/operations.md, The audit trail, does not explain the event %s", kind)
		}
	}
	if len(constants) != len(audit.Kinds()) {
		t.Errorf("%d kinds are listed, and audit.go has %d", len(audit.Kinds()), len(constants))
	}
}
