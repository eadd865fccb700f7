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

// Run seals everything under the first master key, and prints whether the others are still
// needed.
func (v *keyReseal) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	line := p.statusLine()
	line.show("looking at the records in the store")
	done, err := store.Reseal(ctx, func(r storage.Resealed) { line.show(progress(r)) })
	line.clear()
	if err != nil {
		return fmt.Errorf("%w\nthis ended too early, after %s: run it again", err, progress(done))
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

// progress returns a sentence about the progress of a pass over the store.
func progress(r storage.Resealed) string {
	return fmt.Sprintf("%s looked at, %d sealed anew", counted(r.Looked, "record"), r.Sealed)
}

// resealed is the result as --json prints it.
type resealed struct {
	MasterKeys int `json:"master_keys"`
	Looked     int `json:"looked"`
	Sealed     int `json:"sealed"`
	Unreadable int `json:"unreadable"`
}

// sentences returns the result and the next step for people.
func (r resealed) sentences() string {
	if r.MasterKeys == 1 {
		return fmt.Sprintf("there is only one master key, so nothing has to be sealed anew: %s looked at\n", counted(r.Looked, "record"))
	}
	return fmt.Sprintf("every record is sealed under the first master key: %s looked at, %d sealed anew\n", counted(r.Looked, "record"), r.Sealed) +
		"if every server ran with this key first when this began, the other master keys can be dropped; else run this again when all do\n"
}

// mistake returns an error if there are records that cannot be read.
func (r resealed) mistake() error {
	if r.Unreadable == 0 {
		return nil
	}
	return fmt.Errorf("%d of %s cannot be verified or opened with the master keys and the issuer that were given, and stay as they are: "+
		"give the key that is missing too, behind the first, and drop none", r.Unreadable, counted(r.Looked, "record"))
}

// statusLine is a line on a terminal that is overwritten with each new status.
type statusLine struct {
	w     io.Writer // nil unless standard error is a terminal
	now   func() time.Time
	shown time.Time
	width int
}

// statusLine returns a line on standard error. It shows nothing unless that is a terminal.
func (p *program) statusLine() *statusLine {
	if f, ok := p.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &statusLine{w: f, now: time.Now}
	}
	return &statusLine{}
}

// statusTime is the shortest time for which a status is shown.
const statusTime = 250 * time.Millisecond

// show replaces the status, unless it was replaced less than statusTime ago.
func (l *statusLine) show(text string) {
	if l.w == nil {
		return
	}
	if now := l.now(); now.Sub(l.shown) >= statusTime {
		l.shown = now
		l.write(text)
	}
}

// clear empties the line.
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
