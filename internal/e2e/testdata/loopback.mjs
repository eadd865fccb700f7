// Makes every server of a program listen on 127.0.0.1, where it names no address:
// node --import ./loopback.mjs PROGRAM
import { Server } from 'node:net';

const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...more) {
  return typeof port === 'object' || typeof more[0] === 'string' ? listen.call(this, port, ...more) : listen.call(this, Number(port), '127.0.0.1', ...more);
};
