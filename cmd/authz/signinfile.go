package main

import "gatehouse.example/cmd/authz/internal/settings"

// signInFile is the section sign-in of the file: how people sign in.
type signInFile struct {
	// noPasswords refuses every password.
	noPasswords bool
}

// signInIn reads the section sign-in.
func signInIn(d *settings.Document) (signInFile, error) {
	var out signInFile
	section := d.Under("sign-in", []string{"passwords"})
	if f, ok := section.Values["passwords"]; ok {
		out.noPasswords = !section.Truth(f, "passwords")
	}
	return out, section.Mistakes()
}
