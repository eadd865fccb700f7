package sim

import (
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"
)

// commandsOf returns commands in the form in which they are sent.
func commandsOf(cmds []goredis.Cmder) [][]string {
	commands := make([][]string, len(cmds))
	for i, cmd := range cmds {
		for _, arg := range cmd.Args() {
			commands[i] = append(commands[i], text(arg))
		}
	}
	return commands
}

func text(arg any) string {
	switch arg := arg.(type) {
	case string:
		return arg
	case []byte:
		return string(arg)
	case int:
		return strconv.Itoa(arg)
	case int64:
		return strconv.FormatInt(arg, 10)
	case uint64:
		return strconv.FormatUint(arg, 10)
	}
	return fmt.Sprint(arg)
}

// setReplies sets the outcomes of commands: those after the last reply have failed.
func setReplies(cmds []goredis.Cmder, replies []any, failed error) {
	for i, cmd := range cmds {
		if i >= len(replies) {
			cmd.SetErr(failed)
			continue
		}
		switch reply := replies[i].(type) {
		case error:
			cmd.SetErr(reply)
		case nil:
			cmd.SetErr(goredis.Nil)
		default:
			setValue(cmd, reply)
		}
	}
}

// setValue sets the value of a command, in the form of its type.
func setValue(cmd goredis.Cmder, reply any) {
	switch cmd := cmd.(type) {
	case interface{ SetVal(any) }: // Cmd
		cmd.SetVal(reply)
	case interface{ SetVal(string) }: // StringCmd, StatusCmd
		cmd.SetVal(text(reply))
	case interface{ SetVal(int64) }:
		n, _ := reply.(int64)
		cmd.SetVal(n)
	case interface{ SetVal([]any) }:
		list, _ := reply.([]any)
		cmd.SetVal(list)
	case interface{ SetVal([]string) }:
		cmd.SetVal(texts(reply))
	case interface{ SetVal(map[string]string) }:
		cmd.SetVal(fields(reply))
	case interface{ SetVal([]map[string]string) }:
		var all []map[string]string
		list, _ := reply.([]any)
		for _, each := range list {
			all = append(all, fields(each))
		}
		cmd.SetVal(all)
	default:
		cmd.SetErr(fmt.Errorf("sim: the reply to a %T cannot be given", cmd))
	}
}

func texts(reply any) []string {
	if list, ok := reply.([]string); ok {
		return list
	}
	list, _ := reply.([]any)
	all := make([]string, len(list))
	for i, each := range list {
		all[i] = text(each)
	}
	return all
}

// fields parses a flat list of names and values.
func fields(reply any) map[string]string {
	flat := texts(reply)
	m := make(map[string]string, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		m[flat[i]] = flat[i+1]
	}
	return m
}

// setTransaction sets the outcomes of the commands between MULTI and EXEC from the reply to EXEC.
func setTransaction(cmds []goredis.Cmder) error {
	last := len(cmds) - 1
	err := cmds[last].Err()
	if err == goredis.Nil {
		err = goredis.TxFailedErr
	}
	if err != nil {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
	replies, _ := cmds[last].(*goredis.SliceCmd)
	setReplies(cmds[1:last], replies.Val(), nil)
	for _, cmd := range cmds[1:last] {
		if cmd.Err() != nil {
			return cmd.Err()
		}
	}
	return nil
}
