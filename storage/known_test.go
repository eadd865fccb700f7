package storage

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// TestKnownValuesAreCopies: whatever a caller changes in a record that it was given, the next caller
// gets what the store has.
func TestKnownValuesAreCopies(t *testing.T) {
	for _, v := range []any{&User{}, &Session{}, &Client{}, &Consent{}} {
		t.Run(reflect.TypeOf(v).Elem().Name(), func(t *testing.T) {
			n, again := 0, 0
			fillAll(t, reflect.ValueOf(v).Elem(), &n)
			value := copyOf(v)
			give := func() any {
				out := reflect.New(reflect.TypeOf(v).Elem()).Interface()
				if !copyTo(out, value) {
					t.Fatal("it is not kept")
				}
				return out
			}
			given := give()
			if !reflect.DeepEqual(given, v) {
				t.Fatalf("a copy is %+v, want %+v", given, v)
			}
			changed := changeAll(t, reflect.ValueOf(given).Elem())
			changeAll(t, reflect.ValueOf(v).Elem()) // nor does it keep what it was given
			want := reflect.New(reflect.TypeOf(v).Elem())
			fillAll(t, want.Elem(), &again)
			if again := give(); !reflect.DeepEqual(again, want.Interface()) {
				t.Errorf("after changes to a copy the next one is %+v, want %+v", again, want.Interface())
			}
			if changed < 4 {
				t.Errorf("only %d values were changed", changed)
			}
		})
	}
}

// TestKnownIsBounded: a large record is not kept, nor one without a seal, and a record that needs the
// place of another one gets it.
func TestKnownIsBounded(t *testing.T) {
	k := newKnown()
	learnt := func(id string, size int, form byte) bool {
		item := Item{Data: append([]byte{form}, make([]byte, size-1)...), Version: Version{1}}
		k.learn(kindUser, id, item, &User{Name: id})
		return k.of(kindUser, id, item) != nil
	}
	if !learnt("a", knownBytes, sealedForm) || learnt("b", knownBytes+1, sealedForm) || learnt("c", 100, plainForm) {
		t.Error("a record of the greatest size is not kept, or another one is")
	}
	for i := range 3 * knownPlaces {
		if !learnt(fmt.Sprint(i), 100, sealedForm) {
			t.Fatalf("record %d is not kept", i)
		}
	}
	n := 0
	for i := range k.places {
		if k.places[i].Load() != nil {
			n++
		}
	}
	if n > knownPlaces || n < knownPlaces/2 {
		t.Errorf("%d records are kept", n)
	}
}

// TestKnownBelongsToItsPlace: the same bytes under another kind or id, which have the same place, are not
// known.
func TestKnownBelongsToItsPlace(t *testing.T) {
	k, item := newKnown(), Item{Data: []byte{sealedForm}, Version: Version{1}}
	k.learn(kindSession, "id", item, &Session{})
	other := ""
	for i := 0; k.place(kindSession, other) != k.place(kindSession, "id"); i++ {
		other = fmt.Sprint(i)
	}
	if k.place(kindSession, "id") != k.place(kindConsent, "id") {
		t.Error("the kinds differ in length: take two that do not")
	}
	if k.of(kindSession, "id", item) == nil || k.of(kindConsent, "id", item) != nil || k.of(kindSession, other, item) != nil {
		t.Error("a value is known at another place, or not at its own")
	}
}

// changeAll changes everything that can be reached from a value in place, and returns how many values
// these are.
func changeAll(t *testing.T, v reflect.Value) (n int) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			break
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n += changeAll(t, v.Field(i))
			}
		}
		return n
	case reflect.Pointer:
		return changeAll(t, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			n += changeAll(t, v.Index(i))
		}
		return n
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
		return v.Len()
	}
	v.SetZero()
	return 1
}
