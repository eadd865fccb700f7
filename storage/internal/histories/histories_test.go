package histories

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"gatehouse.example/storage"
)

// TestChecker: the check finds wrong histories.
func TestChecker(t *testing.T) {
	op := func(n byte) storage.Version { return storage.Version{n} }
	put := func(n byte, cond storage.Condition) Call {
		return Call{Key: "k", Put: storage.Put{Key: "k", If: cond, Operation: op(n), Data: []byte{n}}}
	}
	item := func(n byte) Answer { return Answer{Version: op(n), Data: string([]byte{n})} }
	conflict := func(n byte) Answer { out := item(n); out.Conflict = true; return out }
	unknown := Answer{Unknown: true}
	get := Call{Key: "k"}
	tests := []struct {
		name  string
		asked []Call
		told  []Answer
		want  porcupine.CheckResult
	}{
		{"one after the other", []Call{put(1, storage.Absent), put(2, storage.Unchanged(op(1))), get}, []Answer{item(1), item(2), item(2)}, porcupine.Ok},
		{"the same again", []Call{put(1, storage.Absent), put(1, storage.Absent), get}, []Answer{item(1), item(1), item(1)}, porcupine.Ok},
		{"the same again, called a conflict", []Call{put(1, storage.Absent), put(1, storage.Absent)}, []Answer{item(1), conflict(1)}, porcupine.Illegal},
		{"two winners", []Call{put(1, storage.Absent), put(2, storage.Absent)}, []Answer{item(1), item(2)}, porcupine.Illegal},
		{"a stale read", []Call{put(1, storage.Absent), put(2, storage.Always), get}, []Answer{item(1), item(2), item(1)}, porcupine.Illegal},
		{"unknown, and it happened", []Call{put(1, storage.Absent), get}, []Answer{unknown, item(1)}, porcupine.Ok},
		{"unknown, and it happens late", []Call{put(1, storage.Always), put(2, storage.Always), get, get}, []Answer{unknown, item(2), item(2), item(1)}, porcupine.Ok},
		{"unknown, and it happens twice", []Call{put(1, storage.Always), get, put(2, storage.Always), get}, []Answer{unknown, item(1), item(2), item(1)}, porcupine.Illegal},
		{"a write that failed, and yet", []Call{get}, []Answer{item(1)}, porcupine.Illegal},
		{"a deletion is forgotten", []Call{put(1, storage.Absent), {Key: "k", Delete: true}, get}, []Answer{item(1), {}, item(1)}, porcupine.Illegal},
	}
	for _, tt := range tests {
		var history []porcupine.Operation
		for i, a := range tt.asked {
			end := int64(2*i + 1)
			if tt.told[i].Unknown {
				end = never
			}
			history = append(history, porcupine.Operation{Input: a, Call: int64(2 * i), Output: tt.told[i], Return: end})
		}
		if got := check(history); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
