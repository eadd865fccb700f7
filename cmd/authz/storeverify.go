package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// storeVerify checks a file. It needs neither the issuer nor a master key, because it opens no
// record.
type storeVerify struct {
	File string `arg:"" help:"The file, such as a backup."`
	JSON bool   `name:"json" help:"Print what the file is as JSON."`
}

// Run checks the file and prints what it is.
func (v *storeVerify) Run(ctx context.Context, p *program, k *kong.Context) error {
	if err := p.loadEnvironment(k); err != nil {
		return err
	}
	line := p.statusLine()
	var what file.Contents
	err := untilSignal(ctx, func() (err error) {
		what, err = file.Inspect(v.File, line.share("checked"))
		return err
	})
	if errors.Is(err, errSignal) {
		return err // the check goes on until the process ends, and has the line
	}
	line.clear()
	if err != nil {
		return notVerified(v.File, err)
	}
	found := foundIn(v.File, what)
	if v.JSON {
		return p.printJSON(found)
	}
	_, err = io.WriteString(p.stdout, found.sentences())
	return err
}

// share returns a function that shows how much of something is done.
func (l *statusLine) share(done string) func(part, total int64) {
	return func(part, total int64) { l.show(fmt.Sprintf("%d %% %s", part*100/max(total, 1), done)) }
}

// fileFound is what a file is, as --json prints it.
type fileFound struct {
	File    string          `json:"file"`
	Format  string          `json:"format"`
	Bytes   int64           `json:"bytes"`
	Items   int64           `json:"items"`
	Lists   int64           `json:"lists"`
	Entries int64           `json:"entries"`
	Lineage storage.Lineage `json:"lineage"`
	Backup  time.Time       `json:"backup,omitzero"` // the moment of which it is a backup
}

func foundIn(path string, what file.Contents) fileFound {
	return fileFound{
		File: path, Format: what.Format, Bytes: what.Bytes, Items: what.Items, Lists: what.Lists, Entries: what.Entries,
		Lineage: what.Lineage, Backup: what.Backup,
	}
}

// sentences returns what the file is for people.
func (f fileFound) sentences() string {
	kind := "it is no backup that authz store backup made and no server has opened"
	if !f.Backup.IsZero() {
		kind = "it is a backup of " + moment(f.Backup)
	}
	return fmt.Sprintf("%s is whole: format %s, %s, %s with %d entries, %d bytes\n%s\nits lineage is %s\n",
		wordOf(f.File), f.Format, counted(int(f.Items), "item"), counted(int(f.Lists), "list"), f.Entries, f.Bytes, kind, f.Lineage)
}

// notVerified says what a person can do about a file that was not verified.
func notVerified(path string, err error) error {
	switch {
	case errors.Is(err, file.ErrInUse):
		return fmt.Errorf("a server has %s open: back it up with authz store backup, and verify the copy", path)
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(path, "file:"):
		return fmt.Errorf("there is no %s: name the file by its path, without file: in front", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no %s", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: this user may not open it: run the command as the user of the server", path)
	}
	return err
}
