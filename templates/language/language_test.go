package language_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse.example/templates/language"
)

func TestSay(t *testing.T) {
	l, err := language.New("xx", "Test", language.LeftToRight, strings.Join([]string{
		"# a comment", "", "plain = A & B", "one = It is {value}.", "link = See {to}here{/to}.",
		"count.one = One, {count}", "count.other = {count} of them",
		"list.more = {first}; {second}", "list.last = {first} and {second}",
		"date.day = {day}/{month}/{year}", "date.month.2 = Feb",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text        language.Text
		html, plain string
	}{
		{language.Say("plain"), "A &amp; B", "A & B"},
		{language.Say("one", "value", "<b>"), "It is <bdi>&lt;b&gt;</bdi>.", "It is <b>."},
		{language.Say("one", "value", language.Marked{Class: "name", Text: "x"}), `It is <bdi class="name">x</bdi>.`, "It is x."},
		{language.Say("one", "value", language.Code("y")), `It is <code>y</code>.`, "It is y."},
		{language.Say("one", "value", language.List{"a", "b", "c"}), "It is <bdi>a</bdi>; <bdi>b</bdi> and <bdi>c</bdi>.", "It is a; b and c."},
		{language.Say("one", "value", language.Say("plain")), "It is A &amp; B.", "It is A & B."},
		{language.Say("one", "value", language.Detail("z")), `It is <span lang="en" dir="ltr">z</span>.`, "It is z."},
		{language.Say("one", "value", time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC)), "It is 3/Feb/2026.", "It is 3/Feb/2026."},
		{language.Say("link", "to", language.Element{Start: "<a>", End: "</a>"}), "See <a>here</a>.", "See here."},
		{language.Say("count", "count", 1), "One, 1", "One, 1"},
		{language.Say("count", "count", 2), "2 of them", "2 of them"},
		{language.Say("login.password"), `<span lang="en" dir="ltr">Password</span>`, "Password"}, // in English only
		{language.Say("no.such"), `<span lang="en" dir="ltr">no.such</span>`, "no.such"},
		{language.Text{}, "", ""},
	} {
		if got := string(l.HTML(tt.text)); got != tt.html {
			t.Errorf("%v: HTML %q, want %q", tt.text, got, tt.html)
		}
		if got := l.Plain(tt.text); got != tt.plain {
			t.Errorf("%v: plain %q, want %q", tt.text, got, tt.plain)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, text := range []string{
		"no sentence", "a =", "= b", "A = b", "a = b\na = c", "a = <b>x</b>", "a = {", "a = }", "a = {x y}", "a = {l}x", "a = x{/l}", "a = {l}{m}x{/l}{/m}",
	} {
		_, err := language.New("xx", "Test", language.LeftToRight, text)
		if text == "a = {l}x" { // a place without an end holds a value
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v, want an error that names the line", text, err)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, tt := range []struct{ accept, want string }{
		{"", "en"}, {"en-GB", "en"}, {"tlh", "en"}, {"*", "en"}, {"nonsense;;q=", "en"},
		{strings.Repeat("a-", 300), "en"}, {"de," + strings.Repeat(" ", 600), "en"},
	} {
		if got := language.Choose(tt.accept).Tag; got != tt.want {
			t.Errorf("%.40q: %s, want %s", tt.accept, got, tt.want)
		}
	}
}

func ExampleSay() {
	text := language.Say("login.lead", "client", "Example <b>Client</b>")
	fmt.Println(language.Choose("en-GB, fr;q=0.5").HTML(text))
	// Output: <bdi>Example &lt;b&gt;Client&lt;/b&gt;</bdi> asks for access. Sign in to see what it asks for; nothing is allowed yet.
}
