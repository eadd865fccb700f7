package main

// storeVerbs look after the store as a whole.
type storeVerbs struct {
	Backup storeBackup `cmd:"" help:"Copy a store in a file into a new file, also while a server uses it."`
	Verify storeVerify `cmd:"" help:"Check every page and record of a store in a file that no server has open, and say what it is."`
}
