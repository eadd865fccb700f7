package authz_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// expect checks the last answer.
func (f *flow) expect(data []byte) {
	f.t.Helper()
	f.expected = true
	all := lines(data)
	f.verdict(f.expand(all[0]))
	for _, line := range all[1:] {
		f.detail(f.expand(line))
	}
}

// verdict checks the first line of an expectation.
func (f *flow) verdict(line string) {
	f.t.Helper()
	line, mayWrite := strings.CutSuffix(line, " and writes")
	words := append(strings.Fields(line), "", "", "")
	var faults []string
	switch words[0] {
	case "answers":
		if f.answer.status != statusOf(words[1]) {
			faults = append(faults, "the status is wrong, want "+words[1])
		}
	case "page":
		faults = pageFaults(f.answer, statusOf(words[1]))
	case "redirects":
		faults = f.redirectFaults(words[1])
	case "refuses":
		faults = append(refusalFaults(f.answer, statusOf(words[1]), words[2]), f.writeFaults(mayWrite)...)
	case "shows":
		faults = append(pageFaults(f.answer, statusOf(words[1])), f.writeFaults(mayWrite)...)
		if !strings.Contains(f.answer.body, "<code>"+words[2]+"</code>") {
			faults = append(faults, "the page does not name "+words[2])
		}
	case "sends":
		faults = append(f.sentBackFaults(words[2], words[3]), f.writeFaults(mayWrite)...)
	default:
		f.fatalf("there is no expectation %q", line)
	}
	if len(faults) > 0 {
		f.errorf("%s", strings.Join(faults, "\n"))
	}
}

func statusOf(s string) int {
	status, _ := strconv.Atoi(s)
	return status
}

func (f *flow) writeFaults(mayWrite bool) []string {
	switch {
	case mayWrite && f.writes == 0:
		return []string{"nothing was written to the store"}
	case !mayWrite && f.writes > 0:
		return []string{"the refused request wrote to the store"}
	}
	return nil
}

func (f *flow) redirectFaults(to string) (faults []string) {
	location := f.answer.header.Get("Location")
	base, _, _ := strings.Cut(location, "?")
	if f.answer.status != http.StatusSeeOther {
		faults = append(faults, "the status is not 303")
	}
	if want, _, _ := strings.Cut(to, "?"); base != want {
		faults = append(faults, "it leads to "+location+", want "+to)
	}
	if f.answer.header.Get("Cache-Control") != "no-store" {
		faults = append(faults, "the redirect may be cached")
	}
	return faults
}

func (f *flow) sentBackFaults(code, to string) []string {
	if to == "" {
		to = f.redirect
	}
	faults := f.redirectFaults(to)
	location, err := url.Parse(f.answer.header.Get("Location"))
	if err != nil {
		return append(faults, "the Location is not a URL")
	}
	query := location.Query()
	for name, want := range map[string]string{"error": code, "iss": f.h.issuer, "state": f.state, "code": ""} {
		if query.Get(name) != want || len(query[name]) > 1 {
			faults = append(faults, name+" is "+strings.Join(query[name], ", ")+", want "+want)
		}
	}
	if d := query.Get("error_description"); len(d) < 10 || !strings.Contains(d, " ") || !nqschar.MatchString(d) {
		faults = append(faults, "the error_description is no sentence: "+d)
	}
	if location.Fragment != "" {
		faults = append(faults, "there is a fragment")
	}
	return faults
}

var detailLine = regexp.MustCompile(`^(no )?(header|json|query|claim|jose) (\S+)(?: (=|~) ?(.*))?$`)

// detail checks one further line of an expectation.
func (f *flow) detail(line string) {
	f.t.Helper()
	subject, rest, _ := strings.Cut(line, " ")
	switch {
	case strings.HasPrefix(line, "body has "):
		f.require(strings.Contains(f.answer.body, line[len("body has "):]), line)
	case strings.HasPrefix(line, "body lacks "):
		f.require(!strings.Contains(f.answer.body, line[len("body lacks "):]), line)
	case strings.HasPrefix(line, "log has "):
		f.require(strings.Contains(f.h.log.String(), line[len("log has "):]), line)
	case strings.HasPrefix(line, "json is "):
		f.require(strings.TrimSpace(f.answer.body) == line[len("json is "):], line)
	case subject == "keep":
		f.keep(strings.Fields(rest))
	default:
		parts := detailLine.FindStringSubmatch(line)
		if parts == nil || (parts[1] == "") == (parts[4] == "") {
			f.fatalf("this line is not understood: %s", line)
		}
		got, present := f.look(parts[2], parts[3])
		switch {
		case parts[1] != "":
			f.require(!present, line+", it is "+got)
		case parts[4] == "=":
			f.require(present && got == parts[5], line+", it is "+got)
		default:
			f.require(strings.Contains(got, parts[5]), line+", it is "+got)
		}
	}
}

func (f *flow) require(ok bool, what string) {
	f.t.Helper()
	if !ok {
		f.errorf("not so: %s", what)
	}
}

// look returns a part of the answer as text.
func (f *flow) look(kind, name string) (value string, present bool) {
	f.t.Helper()
	var members map[string]any
	switch kind {
	case "header":
		values := f.answer.header.Values(name)
		return strings.Join(values, ", "), len(values) > 0
	case "query":
		values, ok := f.answer.location(f.t).Query()[name]
		return strings.Join(values, " | "), ok
	case "json":
		members = f.answer.json(f.t)
	case "claim":
		members = jwtPart(f.t, f.answer.member(f.t, "access_token"), 1)
	case "jose":
		members = jwtPart(f.t, f.answer.member(f.t, "access_token"), 0)
	}
	v, ok := members[name]
	if s, isString := v.(string); isString {
		return s, ok
	}
	rendered, err := json.Marshal(v)
	if err != nil {
		f.fatalf("%v", err)
	}
	return string(rendered), ok
}

func (f *flow) keep(words []string) {
	f.t.Helper()
	if len(words) != 4 || words[2] != "as" {
		f.fatalf("keep KIND MEMBER as VARIABLE, not %v", words)
	}
	value, ok := f.look(words[0], words[1])
	if !ok {
		f.errorf("there is no %s %s to keep", words[0], words[1])
	}
	f.vars[words[3]] = value
}
