package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// elements are the elements of a list by their names, in its order.
type elements struct {
	names  []string
	values map[string]any
}

func elementsOf[T any](list []T, name func(T) string) elements {
	out := elements{values: map[string]any{}}
	for _, one := range list {
		out.names, out.values[name(one)] = append(out.names, name(one)), one
	}
	return out
}

func keysOf[T any](m map[string]T) elements {
	out := elements{values: map[string]any{}}
	for name, one := range m {
		out.names, out.values[name] = append(out.names, name), one
	}
	slices.Sort(out.names)
	return out
}

// maxNamedChanges is the greatest number of elements that are named for each kind of change.
const maxNamedChanges = 5

// with says how the elements differ from those after, "" if they do not.
func (e elements) with(after elements) string {
	var added, removed, changed []string
	for _, name := range after.names {
		before, known := e.values[name]
		switch {
		case !known:
			added = append(added, name)
		case !reflect.DeepEqual(before, after.values[name]):
			changed = append(changed, name)
		}
	}
	for _, name := range e.names {
		if _, there := after.values[name]; !there {
			removed = append(removed, name)
		}
	}
	var out []string
	for _, kind := range []struct {
		what  string
		names []string
	}{{"added", added}, {"changed", changed}, {"removed", removed}} {
		if len(kind.names) > 0 {
			out = append(out, kind.what+" "+someOf(kind.names))
		}
	}
	if len(out) == 0 && !slices.Equal(e.names, after.names) {
		return "in another order"
	}
	return strings.Join(out, "; ")
}

func someOf(names []string) string {
	if more := len(names) - maxNamedChanges; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamedChanges], " "), more)
	}
	return strings.Join(names, " ")
}
