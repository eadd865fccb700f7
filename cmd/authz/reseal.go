package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"gatehouse.example/storage"
)

type keyReseal struct {
	storeSettings
	JSON bool `name:"json" help:"Print the numbers as JSON."`
}

// Run seals everything under the first master key and says whether the others are
// still needed.
func (v *keyReseal) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	line := p.statusLine()
	line.show("looking at the records in the store")
	done, err := store.Reseal(ctx, func(r storage.Resealed) { line.show(met(r)) })
	line.clear()
	if err != nil {
		return fmt.Errorf("%w\nthis ended too early, after %s: run it again", err, met(done))
	}
	result := resealed{MasterKeys: store.MasterKeys(), Looked: done.Looked, Sealed: done.Sealed, Unreadable: done.Unreadable}
	switch {
	case v.JSON:
		err = p.printJSON(result)
	case done.Unreadable == 0:
		_, err = io.WriteString(p.stdout, result.sentences())
	}
	if err != nil {
		return err
	}
	return result.mistake()
}

// met says how far it has come.
func met(r storage.Resealed) string {
	return fmt.Sprintf("%s looked at, %d sealed anew", counted(r.Looked, "record"), r.Sealed)
}

// resealed is what was found in the store, as --json prints it.
type resealed struct {
	MasterKeys int `json:"master_keys"`
	Looked     int `json:"looked"`
	Sealed     int `json:"sealed"`
	Unreadable int `json:"unreadable"`
}

// sentences say what to do next.
func (r resealed) sentences() string {
	if r.MasterKeys == 1 {
		return fmt.Sprintf("there is one master key, so there is nothing else to open: %s looked at\n", counted(r.Looked, "record"))
	}
	return fmt.Sprintf("every record is sealed under the first master key: %s looked at, %d sealed anew\n", counted(r.Looked, "record"), r.Sealed) +
		"if every server ran with this key first when this began, the other master keys can be dropped; else run this again when all do\n"
}

// mistake says that a record cannot be read.
func (r resealed) mistake() error {
	if r.Unreadable == 0 {
		return nil
	}
	return fmt.Errorf("%d of %s cannot be verified or opened with the master keys and the issuer that were given, and stay as they are: "+
		"give the key that is missing too, behind the first, and drop none", r.Unreadable, counted(r.Looked, "record"))
}

// statusLine is a line on a terminal that is written again and again.
type statusLine struct {
	w     io.Writer // nil where nobody looks
	now   func() time.Time
	shown time.Time
	width int
}

// statusLine returns the line on standard error, which shows nothing if that is no
// terminal.
func (p *program) statusLine() *statusLine {
	if f, ok := p.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &statusLine{w: f, now: time.Now}
	}
	return &statusLine{}
}

// statusTime is how long a line stays at least.
const statusTime = 250 * time.Millisecond

// show writes text over what is there, unless that has just been written.
func (l *statusLine) show(text string) {
	if l.w == nil {
		return
	}
	if now := l.now(); now.Sub(l.shown) >= statusTime {
		l.shown = now
		l.write(text)
	}
}

// clear leaves an empty line.
func (l *statusLine) clear() {
	if l.w != nil {
		l.write("")
		_, _ = io.WriteString(l.w, "\r")
	}
}

func (l *statusLine) write(text string) {
	width := utf8.RuneCountInString(text)
	_, _ = io.WriteString(l.w, "\r"+text+strings.Repeat(" ", max(l.width-width, 0)))
	l.width = width
}
