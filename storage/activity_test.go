package storage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestActivityIsBounded: the list holds fifty events, and no number of one kind pushes out the
// only one of another.
func TestActivityIsBounded(t *testing.T) {
	var a storage.Activity
	a.Add(storage.Event{What: "password-changed", At: now()})
	for i := range 500 {
		a.Add(storage.Event{What: storage.EventSignedIn, At: now().Add(time.Duration(i+1) * time.Second), From: fmt.Sprint(i)})
		a.Add(storage.Event{What: "application-allowed", At: now().Add(time.Duration(i+1) * time.Second), About: fmt.Sprint(i)})
	}
	if len(a.Events) != 50 || a.Events[49].What != "password-changed" {
		t.Errorf("after a thousand events of two other kinds there are %d, the oldest %+v", len(a.Events), a.Events[len(a.Events)-1])
	}
	if !slices.IsSortedFunc(a.Events, func(x, y storage.Event) int { return y.At.Compare(x.At) }) {
		t.Error("the newest is not first")
	}
}

// TestActivityCounts: what happens again within a day is counted, and a text is cut without
// breaking a character.
func TestActivityCounts(t *testing.T) {
	var a storage.Activity
	for _, after := range []time.Duration{0, time.Hour, 20 * time.Hour, 10 * time.Hour, 45 * time.Hour} {
		a.Add(storage.Event{What: "application-allowed", At: now().Add(after), About: strings.Repeat("é", 150)})
	}
	if len(a.Events) != 2 || a.Events[1].Times != 4 || !a.Events[1].At.Equal(now().Add(20*time.Hour)) || a.Events[0].Times > 1 {
		t.Errorf("events %+v", a.Events)
	}
	if about := a.Events[0].About; about != strings.Repeat("é", 100) {
		t.Errorf("a text of %d bytes: %q", len(about), about)
	}
	a.Add(storage.Event{What: "application-allowed", At: now().Add(45 * time.Hour), About: strings.Repeat("é", 150), From: "192.0.2.1"})
	if len(a.Events) != 3 {
		t.Errorf("the same from another network is counted as the same: %+v", a.Events)
	}
}

// TestActivityRefused: sign-ins that fail are counted, take no place in the list, and go with the
// next sign-in, also when the two come from different processes.
func TestActivityRefused(t *testing.T) {
	var a storage.Activity
	a.Add(storage.Event{What: "password-changed", At: now()})
	for i := range 1000 {
		a.Refuse(storage.Refused{Count: 1, Last: now().Add(time.Duration(i) * time.Second), From: "203.0.113.7"})
	}
	if len(a.Events) != 1 || a.Refused.Count != 1000 || !a.Refused.Last.Equal(now().Add(999*time.Second)) {
		t.Errorf("a thousand failures: %+v", a)
	}
	var later storage.Activity
	later.Refuse(storage.Refused{Count: 2, Last: now().Add(time.Hour), From: "192.0.2.1"})
	later.Add(storage.Event{What: storage.EventSignedIn, At: now().Add(2 * time.Hour)})
	later.Refuse(storage.Refused{Count: 3, Last: now().Add(3 * time.Hour), From: "192.0.2.2"})
	a.Merge(later)
	if a.Events[0].Refused != (storage.Refused{Count: 1002, Last: now().Add(time.Hour), From: "192.0.2.1"}) ||
		a.Refused != (storage.Refused{Count: 3, Last: now().Add(3 * time.Hour), From: "192.0.2.2"}) || len(a.Events) != 2 {
		t.Errorf("after a sign-in: %+v", a)
	}
}

// TestActivityEndsWithThePerson: a person who is removed leaves none behind.
func TestActivityEndsWithThePerson(t *testing.T) {
	s, _ := newStore(t)
	if err := s.CreateUser(t.Context(), storage.User{Name: "ada", Subject: "subject"}); err != nil {
		t.Fatal(err)
	}
	add := func(a *storage.Activity) { a.Add(storage.Event{What: "test", At: now()}) }
	if err := s.AddActivity(t.Context(), "subject", add); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Activity(t.Context(), "subject"); err != nil || len(a.Events) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := s.DeleteUser(t.Context(), "ada", "subject"); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Activity(t.Context(), "subject"); err != nil || len(a.Events) != 0 {
		t.Errorf("after the removal: %+v, %v", a, err)
	}
}
