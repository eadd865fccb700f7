package direct

import "reflect"

// logic returns not, and, or. The last two return the first argument that decides, and evaluate none
// behind it.
func logic(name string, arguments []value) value {
	switch {
	case name == "not" && len(arguments) == 1:
		return func(f *frame) (reflect.Value, error) {
			v, err := arguments[0](f)
			if err != nil {
				return v, err
			}
			holds, err := truth(v)
			return reflect.ValueOf(!holds), err
		}
	case name == "and" && len(arguments) > 0:
		return first(arguments, false)
	case name == "or" && len(arguments) > 0:
		return first(arguments, true)
	}
	return nil
}

// first returns the first argument whose truth is wanted, otherwise the last one.
func first(arguments []value, wanted bool) value {
	return func(f *frame) (v reflect.Value, err error) {
		for _, argument := range arguments {
			if v, err = argument(f); err != nil {
				return v, err
			}
			if holds, err := truth(v); err != nil || holds == wanted {
				return v, err
			}
		}
		return v, nil
	}
}

// builtin returns a function of text/template, nil for one that is not known. They know texts, whole
// numbers and slices.
func builtin(name string) function {
	switch name {
	case "len":
		return length
	case "eq":
		return func(arguments []any) (any, error) { return equal(arguments) }
	case "ne":
		return func(arguments []any) (any, error) {
			same, err := equal(arguments)
			return !same, err
		}
	case "gt":
		return greater
	case "index":
		return element
	}
	return nil
}

func length(arguments []any) (any, error) {
	if len(arguments) != 1 {
		return nil, ErrUnknown
	}
	v := reflect.ValueOf(arguments[0])
	if v.Kind() != reflect.Slice && v.Kind() != reflect.String {
		return nil, ErrUnknown
	}
	return v.Len(), nil
}

func equal(arguments []any) (bool, error) {
	if len(arguments) != 2 {
		return false, ErrUnknown
	}
	switch a := arguments[0].(type) {
	case string:
		b, ok := arguments[1].(string)
		return a == b, known(ok)
	case int:
		b, ok := arguments[1].(int)
		return a == b, known(ok)
	}
	return false, ErrUnknown
}

func greater(arguments []any) (any, error) {
	if len(arguments) != 2 {
		return nil, ErrUnknown
	}
	a, number := arguments[0].(int)
	b, other := arguments[1].(int)
	return a > b, known(number && other)
}

func element(arguments []any) (any, error) {
	if len(arguments) != 2 {
		return nil, ErrUnknown
	}
	i, number := arguments[1].(int)
	v := reflect.ValueOf(arguments[0])
	if !number || v.Kind() != reflect.Slice || i < 0 || i >= v.Len() {
		return nil, ErrUnknown
	}
	return v.Index(i).Interface(), nil
}

func known(ok bool) error {
	if ok {
		return nil
	}
	return ErrUnknown
}
