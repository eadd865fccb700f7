package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const kindActivity = "activity"

// Activity is what happened lately to what a person has here. It is for the person who looks, not
// an audit trail: it is bounded, and a crash may lose the last seconds of it.
type Activity struct {
	// Events are the latest, the newest first.
	Events []Event `json:"events,omitempty"`
	// Refused are the sign-ins that failed since the last one that did not.
	Refused Refused `json:"refused,omitzero"`

	version Version
}

// Event is one thing that happened.
type Event struct {
	// What is the kind of event: [EventSignedIn], or another word that keeps its meaning for good.
	What string    `json:"what"`
	At   time.Time `json:"at"`
	// About is what it happened to, such as the name of a client, a passkey or a provider, and
	// From the network of the browser. Neither is longer than 200 bytes.
	About string `json:"about,omitempty"`
	From  string `json:"from,omitempty"`
	// Times is how often it happened within a day, the last time at At; 0 is once.
	Times int `json:"times,omitempty"`
	// Refused are the sign-ins that failed before this one, if it is one.
	Refused Refused `json:"refused,omitzero"`
}

// Refused counts sign-ins that failed.
type Refused struct {
	Count int `json:"count,omitempty"`
	// Last is when the last one failed, From its network.
	Last time.Time `json:"last,omitzero"`
	From string    `json:"from,omitempty"`
}

// EventSignedIn is the kind of event with which counting of failed sign-ins begins anew.
const EventSignedIn = "signed-in"

const (
	// maxEvents is how many events a person's record holds.
	maxEvents = 50
	// maxEventText is the greatest length of a text that only people read, in bytes.
	maxEventText = 200
	// sameEvent is the time within which an event that happens again is counted, not listed.
	sameEvent = 24 * time.Hour
	// activityTTL is how long a record is kept after the last event.
	activityTTL = 365 * 24 * time.Hour
	// activityAttempts bounds how often events are added again because others were added.
	activityAttempts = 8
)

// Add adds an event. The same thing from the same network within a day is counted. A list that is
// full loses the oldest event of the kind of which there are most, so no number of events of one
// kind removes the only one of another.
func (a *Activity) Add(e Event) {
	e.About, e.From = cutText(e.About), cutText(e.From)
	if e.What == EventSignedIn {
		e.Refused, a.Refused = a.Refused.plus(e.Refused), Refused{}
	}
	again := func(old Event) bool {
		return old.What == e.What && old.About == e.About && old.From == e.From && e.At.Sub(old.At).Abs() < sameEvent
	}
	a.Events = slices.Clone(a.Events)
	if i := slices.IndexFunc(a.Events, again); i >= 0 {
		old := a.Events[i]
		a.Events = slices.Delete(a.Events, i, i+1)
		e.Times, e.Refused = max(e.Times, 1)+max(old.Times, 1), old.Refused.plus(e.Refused)
		if old.At.After(e.At) {
			e.At = old.At
		}
	}
	a.Events = append(a.Events, e)
	slices.SortStableFunc(a.Events, func(x, y Event) int { return y.At.Compare(x.At) })
	if len(a.Events) > maxEvents {
		a.drop()
	}
}

// Refuse counts sign-ins that failed.
func (a *Activity) Refuse(r Refused) {
	r.From = cutText(r.From)
	a.Refused = a.Refused.plus(r)
}

// Merge adds what happened later.
func (a *Activity) Merge(later Activity) {
	for _, e := range slices.Backward(later.Events) {
		a.Add(e)
	}
	a.Refuse(later.Refused)
}

// plus returns both counts as one.
func (r Refused) plus(other Refused) Refused {
	other.Count += r.Count
	if other.Last.Before(r.Last) {
		other.Last, other.From = r.Last, r.From
	}
	return other
}

// cutText returns a text of at most maxEventText bytes.
func cutText(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxEventText)], "")
}

// drop removes the oldest event of the most frequent kind.
func (a *Activity) drop() {
	kinds := map[string]int{}
	for _, e := range a.Events {
		kinds[e.What]++
	}
	most, last := 0, 0
	for i, e := range a.Events { // of two kinds that are as frequent, the one with the older event
		if kinds[e.What] >= most {
			most, last = kinds[e.What], i
		}
	}
	a.Events = slices.Delete(a.Events, last, last+1)
}

// Activity returns what happened lately to a person; nothing is the zero Activity.
func (s *Store) Activity(ctx context.Context, subject string) (Activity, error) {
	var a Activity
	version, err := s.read(ctx, kindActivity, subject, &a)
	if errors.Is(err, ErrNotFound) {
		return Activity{}, nil
	}
	if err != nil {
		return Activity{}, err
	}
	a.version = version
	return a, nil
}

// AddActivity changes what happened lately to a person. Add may be called several times, because
// other processes add something too.
func (s *Store) AddActivity(ctx context.Context, subject string, add func(*Activity)) error {
	for range activityAttempts {
		a, err := s.Activity(ctx, subject)
		if err != nil {
			return err
		}
		add(&a)
		_, err = s.write(ctx, record{
			kind: kindActivity, id: subject, value: a, expires: s.now().Add(activityTTL), forgettable: true,
		}, Unchanged(a.version))
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("storage: activity: %w: the record kept changing", ErrUnavailable)
}

// deleteActivity removes what happened to a person.
func (s *Store) deleteActivity(ctx context.Context, subject string) error {
	ctx, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	if err := s.backend.Delete(ctx, key(kindActivity, subject)); err != nil {
		return unavailable("delete activity", err)
	}
	return nil
}
