package main

import (
	"fmt"
	"log/slog"
	"time"
)

// ofServer are the options of a server, which tells its log.
func ofServer(log *slog.Logger) storeOptions {
	return storeOptions{
		create: true,
		warn:   func(sentence string) { log.Warn(sentence) },
		say:    func(sentence string) { log.Info(sentence) },
	}
}

// A start that takes longer than a moment says what it waits for.
const (
	checkingFirst = time.Second
	checkingNext  = 10 * time.Second
)

// checking returns a function that is told how much of a file was checked, and says so in a sentence
// after a second and every ten seconds from then on.
func checking(path string, now func() time.Time, say func(sentence string)) func(done, total int64) {
	next := now().Add(checkingFirst)
	return func(done, total int64) {
		if at := now(); !at.Before(next) {
			next = at.Add(checkingNext)
			say(fmt.Sprintf("checking the store %s before it is used: %d %% done", path, done*100/max(total, 1)))
		}
	}
}
