package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/transfer"
)

// storeCopy copies a store to another place.
type storeCopy struct {
	Config   string            `placeholder:"FILE" help:"YAML file with settings."`
	From     settings.StoreURL `placeholder:"URL" help:"The store to copy. Servers refuse it from now on."`
	FromFile string            `placeholder:"FILE" help:"File that contains its URL."`
	To       settings.StoreURL `placeholder:"URL" help:"The store to copy it to, empty or with a part of the same copy. A file is made if it is not there."`
	ToFile   string            `placeholder:"FILE" help:"File that contains its URL."`
	Undo     bool              `help:"Copy nothing: give up the copy from --from, so that servers use that store again."`
	JSON     bool              `name:"json" help:"Print what was copied as JSON."`
	sealSettings
	actSettings
}

// Run copies the store, or gives a copy up.
func (v *storeCopy) Run(ctx context.Context, p *program, k *kong.Context) error {
	if _, err := p.loadStore(k); err != nil {
		return err
	}
	if err := v.mistake(); err != nil {
		return usageError{err}
	}
	from, err := openSide(ctx, p, v.From, false)
	if err != nil {
		return err
	}
	defer from.Backend.Close()
	if err := p.recordActAt(ctx, v.actSettings, v.sealSettings, from.Backend, false); err != nil {
		return err
	}
	if v.Undo {
		return v.undo(ctx, p, from)
	}
	to, err := openSide(ctx, p, v.To, true)
	if err != nil {
		return err
	}
	defer to.Backend.Close()
	done, err := v.copy(ctx, p, from, to)
	if err != nil {
		return v.problem(from, to, done, err)
	}
	return v.print(p, from, to, done)
}

// mistake returns an error if the stores cannot be copied, as far as their names say.
func (v *storeCopy) mistake() error {
	switch {
	case v.From == "":
		return errors.New("from is not set: name the store to copy with --from, such as file:/var/lib/gatehouse/gatehouse.db")
	case v.Undo && v.To != "":
		return errors.New("to has no meaning with --undo, which changes the store of --from alone")
	case v.To == "" && !v.Undo:
		return errors.New("to is not set: name the store to copy to with --to, such as redis://127.0.0.1:6379")
	case v.From.Embedded() || v.To.Embedded():
		return errors.New("store embedded: is in the memory of one process: it cannot be copied, and nothing can be copied there")
	}
	paths, err := filesOf(v.From, v.To)
	switch {
	case err != nil:
		return err
	case v.From == v.To, paths[0] != "" && sameFile(paths[0], paths[1]):
		return errors.New("from and to are the same store")
	case v.Undo:
		return nil
	}
	return v.sealSettings.mistake()
}

// filesOf returns the paths of stores, empty for those that are not in a file.
func filesOf(urls ...settings.StoreURL) (paths []string, err error) {
	for _, url := range urls {
		path, err := url.File()
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func sameFile(a, b string) bool {
	one, errA := os.Stat(a)
	other, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(one, other)
}

// openSide opens a store for a copy: a file for this process alone.
func openSide(ctx context.Context, p *program, url settings.StoreURL, create bool) (transfer.Side, error) {
	path, err := url.File()
	if err != nil {
		return transfer.Side{}, fmt.Errorf("store: %w", err)
	}
	if path == "" {
		return openRedisSide(ctx, p, url)
	}
	backend, err := file.Open(file.Options{Path: path, Create: create})
	switch {
	case errors.Is(err, file.ErrInUse):
		return transfer.Side{}, fmt.Errorf("store: another process has %s open: stop the server, and start none before the copy is finished", path)
	case errors.Is(err, fs.ErrNotExist) && !create:
		return transfer.Side{}, fmt.Errorf("there is no %s: name the store of the server with --from", path)
	case err != nil:
		return transfer.Side{}, fileProblem(path, create, err)
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return transfer.Side{Name: "file:" + path, Backend: backend}, nil
}

func openRedisSide(ctx context.Context, p *program, url settings.StoreURL) (transfer.Side, error) {
	warn := func(sentence string) { fmt.Fprintf(p.stderr, "authz: %s: %s\n", url, sentence) }
	backend, err := redis.Open(ctx, redis.Options{URL: string(url), PoolSize: transfer.Writers, OnWarning: warn})
	if err != nil {
		return transfer.Side{}, fmt.Errorf("store: %w", err)
	}
	lister, ok := backend.(storage.IndexLister)
	if !ok {
		return transfer.Side{}, errors.Join(fmt.Errorf("store: %s cannot be copied", url), backend.Close())
	}
	return transfer.Side{Name: url.String(), Backend: lister}, nil
}

// copy copies, and says on standard error what will be copied and how far it is.
func (v *storeCopy) copy(ctx context.Context, p *program, from, to transfer.Side) (transfer.Summary, error) {
	o := transfer.Options{From: from, To: to, Records: v.options(), Wait: transfer.NoticeTime}
	if path, _ := v.From.File(); path != "" {
		o.Wait = 0 // this process has locked it
	}
	line := p.statusLine()
	o.Progress = func(at transfer.Progress) { line.show(copyStatus(at)) }
	o.Surveyed = func(s transfer.Summary) {
		line.clear()
		for text := range strings.Lines(surveySentences(from, to, s)) {
			fmt.Fprintf(p.stderr, "authz: %s", text)
		}
	}
	done, err := transfer.Copy(ctx, o)
	line.clear()
	return done, err
}

// copyStatus returns a sentence about the progress of a copy.
func copyStatus(at transfer.Progress) string {
	switch at.Stage {
	case transfer.Waiting:
		return "waiting until every server has noticed that the store is being copied"
	case transfer.Counting:
		return fmt.Sprintf("%d records and entries of lists counted", at.Done)
	case transfer.Checking:
		return fmt.Sprintf("%d of %d records and entries of lists compared", at.Done, at.Total)
	}
	return fmt.Sprintf("%d of %d records and entries of lists copied", at.Done, at.Total)
}

// surveySentences returns what will be copied, and what ends.
func surveySentences(from, to transfer.Side, s transfer.Summary) string {
	begin := "copying"
	if s.Resumed {
		begin = "going on to copy"
	}
	out := fmt.Sprintf("%s %s and %d entries of lists from %s to %s\n", begin, counted(sum(s.Records), "record"), sum(s.Lists), from.Name, to.Name) +
		inFlight(s)
	if s.Unverified > 0 {
		out += fmt.Sprintf("%s cannot be verified with the master keys and the issuer that were given: they are copied as they are, and refused there as here\n",
			counted(s.Unverified, "record"))
	}
	return out
}

// inFlight returns what becomes of sign-ins that are under way, with numbers.
func inFlight(s transfer.Summary) string {
	return fmt.Sprintf("in flight: %s not redeemed, left out: their clients ask again; %s, kept: people stay signed in\n",
		counted(s.Codes, "code"), counted(s.Records["session"].Count, "session"))
}

func sum(all map[string]transfer.Tally) (n int) {
	for _, t := range all {
		n += t.Count
	}
	return n
}

// problem says what a person can do about a copy that failed.
func (v *storeCopy) problem(from, to transfer.Side, done transfer.Summary, err error) error {
	switch {
	case errors.Is(err, transfer.ErrKeys):
		err = fmt.Errorf("the master keys or the issuer that were given are not those of %s: give those of the server: %w", from.Name, err)
	case errors.Is(err, transfer.ErrEmpty):
		err = fmt.Errorf("%s has no records: name the store of the server with --from", from.Name)
	case errors.Is(err, transfer.ErrNotEmpty):
		err = fmt.Errorf("%s has records that this copy did not write: name a store that is empty with --to", to.Name)
	case errors.Is(err, transfer.ErrDiffers):
		err = fmt.Errorf("another program wrote to one of the stores during the copy: stop it, empty %s and run this again: %w", to.Name, err)
	case errors.Is(err, storage.ErrFull):
		err = fmt.Errorf("%s has no more room: %w", to.Name, err)
	case errors.As(err, new(*transfer.MarkedError)):
		return copyProblem(err)
	}
	if done.Marked {
		err = fmt.Errorf("%w\nthe copy is not finished, and servers refuse both stores: run the same command again to go on, or give it up with authz store copy --undo --from %s", err, from.Name)
	}
	return err
}

// copyProblem says what a person can do about a store that takes part in a copy.
func copyProblem(err error) error {
	var marked *transfer.MarkedError
	if !errors.As(err, &marked) {
		return fmt.Errorf("store: %w", err)
	}
	advice := "run authz store copy again to go on, or give it up with authz store copy --undo --from URL"
	switch {
	case marked.Target:
		advice = "run the same authz store copy again to go on; if that was given up, empty this store"
	case marked.Done:
		advice = "name that store with --store; if it is lost, authz store copy --undo --from URL lets this one be used again, without anything that happened since"
	}
	return fmt.Errorf("store: %w: %s", marked, advice)
}

// copied is a finished copy as --json prints it.
type copied struct {
	From string `json:"from"`
	To   string `json:"to"`
	transfer.Summary
}

// print prints what was copied, and the next steps for people.
func (v *storeCopy) print(p *program, from, to transfer.Side, done transfer.Summary) error {
	if v.JSON {
		return p.printJSON(copied{from.Name, to.Name, done})
	}
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COPIED\tNUMBER\tDIGEST")
	for _, part := range []struct {
		name string
		all  map[string]transfer.Tally
	}{{"records", done.Records}, {"lists", done.Lists}} {
		for _, kind := range slices.Sorted(maps.Keys(part.all)) {
			t := part.all[kind]
			fmt.Fprintf(table, "%s %s\t%d\t%s\n", part.name, kind, t.Count, t.Digest())
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(p.stdout, fmt.Sprintf("everything was read again at %s and is the same as at %s\n", to.Name, from.Name)+inFlight(done)+
		fmt.Sprintf("start the servers with --store %s; they refuse %s from now on\n", to.Name, from.Name))
	return err
}

// undo gives a copy up.
func (v *storeCopy) undo(ctx context.Context, p *program, from transfer.Side) error {
	was, err := transfer.Undo(ctx, from.Backend)
	switch {
	case errors.Is(err, transfer.ErrNotMarked):
		return fmt.Errorf("%s is not being copied and was not: servers use it", from.Name)
	case errors.As(err, new(*transfer.MarkedError)):
		return copyProblem(err)
	case err != nil:
		return err
	case was.Done:
		_, err = fmt.Fprintf(p.stdout, "servers use %s again, without anything that happened at %s since %s: start none on that one\n", from.Name, was.Other, moment(was.Since))
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "servers use %s again; what was copied to %s is refused: empty it before another copy\n", from.Name, was.Other)
	return err
}
