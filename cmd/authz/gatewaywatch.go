package main

import (
	"crypto/sha256"
	"log/slog"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
)

// rereadEvery is how often watched files are read.
const rereadEvery = time.Second

// watched are files that are loaded again when their content has changed, whatever tool replaced
// them: links, as Kubernetes has them, change without a sign at the file.
type watched struct {
	files []*watchedFiles
	roots [sha256.Size]byte // a digest of the file upstream-ca, which is read at a reload only
}

// watchedFiles are the files of one setting.
type watchedFiles struct {
	setting string
	names   []string
	load    func() error
	last    [sha256.Size]byte // zero before the first look
}

// add watches files that were loaded. The first look loads them again, because they may have
// changed since.
func (w *watched) add(setting string, names []string, load func() error) {
	w.files = append(w.files, &watchedFiles{setting: setting, names: names, load: load})
}

// reload loads the files that have changed. What was loaded before stays in use after a failure,
// which is logged once for each state of the files.
func (w *watched) reload(log *slog.Logger) {
	for _, f := range w.files {
		now, err := f.digest()
		if now == f.last {
			continue
		}
		first := f.last == [sha256.Size]byte{}
		f.last = now
		if err == nil {
			err = f.load()
		}
		switch {
		case err != nil:
			log.Error(f.setting+" has changed and cannot be used: what was read before stays in use", "error", err)
		case !first:
			log.Info(f.setting + " has changed and was read again")
		}
	}
}

// digest returns a digest of the files, or of the reason why one cannot be read.
func (f *watchedFiles) digest() ([sha256.Size]byte, error) {
	var all []byte
	for _, name := range f.names {
		data, err := settings.ReadAtMost(name, 1<<20)
		if err != nil {
			return sha256.Sum256([]byte("error: " + err.Error())), err
		}
		sum := sha256.Sum256(data)
		all = append(all, sum[:]...)
	}
	return sha256.Sum256(all), nil
}
