package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/storage"
)

// keySealRecords starts the switch after which every record is sealed.
type keySealRecords struct {
	storeSettings
	Wait bool `default:"true" negatable:"" help:"Wait until records without a seal are refused, about two minutes; else a running server or the next run of this command finishes the switch (default ${default})."`
	JSON bool `name:"json" help:"Print the numbers as JSON."`
}

// Run starts the switch, seals the existing records, and waits until every server seals new
// ones. When it is interrupted, the next run continues.
func (v *keySealRecords) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	line := p.statusLine()
	line.show("looking at the records in the store")
	done, err := v.seal(ctx, store, line)
	line.clear()
	if err != nil {
		return fmt.Errorf("%w\nthis ended too early, after %s: run it again", err, progress(done.Resealed))
	}
	if v.JSON {
		err = p.printJSON(switched{Form: string(done.Form), Until: done.Until, Looked: done.Looked, Sealed: done.Sealed, Unreadable: done.Unreadable})
	} else {
		_, err = fmt.Fprint(p.stdout, sealedSentences(done))
	}
	if err == nil && done.Unreadable > 0 {
		err = fmt.Errorf("%d of %s cannot be verified or opened with the master keys and the issuer that were given: they are refused from now on", done.Unreadable, counted(done.Looked, "record"))
	}
	return err
}

// seal repeats passes until every record is sealed, or runs one pass without --wait.
func (v *keySealRecords) seal(ctx context.Context, store *storage.Store, line *statusLine) (storage.Switched, error) {
	for {
		done, err := store.SealRecords(ctx, func(r storage.Resealed) { line.show(progress(r)) })
		if err != nil || done.Until.IsZero() || !v.Wait {
			return done, err
		}
		for left := time.Until(done.Until); left > 0; left = time.Until(done.Until) {
			line.show(fmt.Sprintf("waiting for %s until every server has read the switch", left.Round(time.Second)))
			select {
			case <-ctx.Done():
				return done, errors.New("interrupted")
			case <-time.After(min(left, time.Second)):
			}
		}
	}
}

// switched is the result as --json prints it.
type switched struct {
	Form       string    `json:"form"`
	Until      time.Time `json:"until,omitzero"`
	Looked     int       `json:"looked"`
	Sealed     int       `json:"sealed"`
	Unreadable int       `json:"unreadable"`
}

func sealedSentences(done storage.Switched) string {
	if done.Form == storage.FormSealed {
		return fmt.Sprintf("every record is sealed, and one without a seal is refused: %s\n", progress(done.Resealed)) +
			"set records: sealed for every server, so that a store without this switch is detected\n"
	}
	return fmt.Sprintf("records are being sealed: %s\n", progress(done.Resealed)) +
		fmt.Sprintf("after %s a running server, or this command when it is run again, refuses records without a seal\n", moment(done.Until.UTC()))
}
