enable f16;
var<workgroup> shared_v29: array<vec4<f32>, 20>;
var<workgroup> shared_v33: array<vec4<f32>, 640>;
@group(0) @binding(4) var<storage, read_write> v17: array<f16>;
@group(0) @binding(3) var<storage, read> v13: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_gemv_f16_gather_gated_silu(@builtin(workgroup_id) v1493: vec3<u32>, @builtin(local_invocation_index) v1496: u32, @builtin(local_invocation_id) v1510: vec3<u32>) {
let v1653 = &v17;
let v1654 = &v13;
let v1655 = &v9;
let v1656 = &v5;
let v1657 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v1474 = &shared_v29;
let v1475 = &shared_v33;
var<function> v1476_store: array<f32, 8>= array<f32, 8>();
let v1476 = &v1476_store;
let v45 = &(*v1476)[v3];
let v46 = f32(0.0);
*v45 = v46;
let v49 = u32(1);
let v51 = &(*v1476)[v49];
*v51 = v46;
let v55 = u32(2);
let v57 = &(*v1476)[v55];
*v57 = v46;
let v61 = u32(3);
let v63 = &(*v1476)[v61];
*v63 = v46;
let v67 = u32(4);
let v69 = &(*v1476)[v67];
*v69 = v46;
let v73 = u32(5);
let v75 = &(*v1476)[v73];
*v75 = v46;
let v79 = u32(6);
let v81 = &(*v1476)[v79];
*v81 = v46;
let v85 = u32(7);
let v87 = &(*v1476)[v85];
*v87 = v46;
let v1494 = v1493[0];
let v90 = u32(v1494);
let v92 = v90 * v61;
let v96 = &(*v1655)[v92];
let v97 = *v96;
let v98 = u32(v97);
let v100 = v92 + v49;
let v104 = &(*v1655)[v100];
let v105 = *v104;
let v106 = u32(v105);
let v108 = v92 + v55;
let v112 = &(*v1655)[v108];
let v113 = *v112;
let v114 = u32(v113);
let v1495 = v1493[1];
let v116 = u32(v1495);
let v117 = u32(64);
let v118 = v116 * v117;
let v119 = v98 >= v27;
let v120 = v98 < v28;
let v121 = v119 && v120;
if v121 {
let v123 = u32(16);
for(var v124: u32 = v3; v124 < v22; v124 += v123) {
let v1497 = v1496;
let v127 = u32(v1497);
let v131 = v127 < v123;
if v131 {
let v133 = v127 / v67;
let v135 = v127 % v67;
let v136 = v106 + v133;
let v138 = v114 - v49;
let v139 = min(v136, v138);
let v143 = &(*v1656)[v139];
let v144 = *v143;
let v145 = u32(v144);
let v146 = v145 / v23;
let v148 = v67 * v135;
let v149 = v124 + v148;
let v151 = vec4<f32>(v46);
var<function> v1478_store: vec4<f32>;
let v1478 = &v1478_store;
*v1478 = v151;
let v153 = v149 < v22;
if v153 {
let v154 = v146 * v22;
let v155 = v154 + v149;
let v157 = v155 / v67;
let v161 = &(*v1657)[v157];
let v162 = *v161;
let v163 = vec4<f32>(v162);
*v1478 = v163;

}
let v165 = v133 * v73;
let v166 = v165 + v135;
let v170 = &(*v1474)[v166];
let v171 = *v1478;
*v170 = v171;

}
let v172 = v98 - v27;
let v173 = v172 * v21;
let v175 = v173 * v55;
let v180 = u32(512);
let v181 = v127 < v180;
if v181 {
let v183 = v127 / v67;
let v185 = v127 % v67;
let v187 = v183 / v117;
let v189 = v183 % v117;
let v190 = v118 + v189;
let v192 = v21 - v49;
let v193 = min(v190, v192);
let v194 = v187 * v21;
let v195 = v175 + v194;
let v196 = v195 + v193;
let v198 = v67 * v185;
let v199 = v124 + v198;
let v201 = vec4<f32>(v46);
var<function> v1479_store: vec4<f32>;
let v1479 = &v1479_store;
*v1479 = v201;
let v203 = v199 < v22;
if v203 {
let v204 = v196 * v22;
let v205 = v204 + v199;
let v207 = v205 / v67;
let v211 = &(*v1654)[v207];
let v212 = *v211;
let v213 = vec4<f32>(v212);
*v1479 = v213;

}
let v215 = v183 * v73;
let v216 = v215 + v185;
let v220 = &(*v1475)[v216];
let v221 = *v1479;
*v220 = v221;

}
let v225 = v127 + v117;
let v227 = v225 < v180;
if v227 {
let v229 = v225 / v67;
let v231 = v225 % v67;
let v233 = v229 / v117;
let v235 = v229 % v117;
let v236 = v118 + v235;
let v238 = v21 - v49;
let v239 = min(v236, v238);
let v240 = v233 * v21;
let v241 = v175 + v240;
let v242 = v241 + v239;
let v244 = v67 * v231;
let v245 = v124 + v244;
let v247 = vec4<f32>(v46);
var<function> v1480_store: vec4<f32>;
let v1480 = &v1480_store;
*v1480 = v247;
let v249 = v245 < v22;
if v249 {
let v250 = v242 * v22;
let v251 = v250 + v245;
let v253 = v251 / v67;
let v257 = &(*v1654)[v253];
let v258 = *v257;
let v259 = vec4<f32>(v258);
*v1480 = v259;

}
let v261 = v229 * v73;
let v262 = v261 + v231;
let v266 = &(*v1475)[v262];
let v267 = *v1480;
*v266 = v267;

}
let v270 = u32(128);
let v271 = v127 + v270;
let v273 = v271 < v180;
if v273 {
let v275 = v271 / v67;
let v277 = v271 % v67;
let v279 = v275 / v117;
let v281 = v275 % v117;
let v282 = v118 + v281;
let v284 = v21 - v49;
let v285 = min(v282, v284);
let v286 = v279 * v21;
let v287 = v175 + v286;
let v288 = v287 + v285;
let v290 = v67 * v277;
let v291 = v124 + v290;
let v293 = vec4<f32>(v46);
var<function> v1481_store: vec4<f32>;
let v1481 = &v1481_store;
*v1481 = v293;
let v295 = v291 < v22;
if v295 {
let v296 = v288 * v22;
let v297 = v296 + v291;
let v299 = v297 / v67;
let v303 = &(*v1654)[v299];
let v304 = *v303;
let v305 = vec4<f32>(v304);
*v1481 = v305;

}
let v307 = v275 * v73;
let v308 = v307 + v277;
let v312 = &(*v1475)[v308];
let v313 = *v1481;
*v312 = v313;

}
let v316 = u32(192);
let v317 = v127 + v316;
let v319 = v317 < v180;
if v319 {
let v321 = v317 / v67;
let v323 = v317 % v67;
let v325 = v321 / v117;
let v327 = v321 % v117;
let v328 = v118 + v327;
let v330 = v21 - v49;
let v331 = min(v328, v330);
let v332 = v325 * v21;
let v333 = v175 + v332;
let v334 = v333 + v331;
let v336 = v67 * v323;
let v337 = v124 + v336;
let v339 = vec4<f32>(v46);
var<function> v1482_store: vec4<f32>;
let v1482 = &v1482_store;
*v1482 = v339;
let v341 = v337 < v22;
if v341 {
let v342 = v334 * v22;
let v343 = v342 + v337;
let v345 = v343 / v67;
let v349 = &(*v1654)[v345];
let v350 = *v349;
let v351 = vec4<f32>(v350);
*v1482 = v351;

}
let v353 = v321 * v73;
let v354 = v353 + v323;
let v358 = &(*v1475)[v354];
let v359 = *v1482;
*v358 = v359;

}
let v362 = u32(256);
let v363 = v127 + v362;
let v365 = v363 < v180;
if v365 {
let v367 = v363 / v67;
let v369 = v363 % v67;
let v371 = v367 / v117;
let v373 = v367 % v117;
let v374 = v118 + v373;
let v376 = v21 - v49;
let v377 = min(v374, v376);
let v378 = v371 * v21;
let v379 = v175 + v378;
let v380 = v379 + v377;
let v382 = v67 * v369;
let v383 = v124 + v382;
let v385 = vec4<f32>(v46);
var<function> v1483_store: vec4<f32>;
let v1483 = &v1483_store;
*v1483 = v385;
let v387 = v383 < v22;
if v387 {
let v388 = v380 * v22;
let v389 = v388 + v383;
let v391 = v389 / v67;
let v395 = &(*v1654)[v391];
let v396 = *v395;
let v397 = vec4<f32>(v396);
*v1483 = v397;

}
let v399 = v367 * v73;
let v400 = v399 + v369;
let v404 = &(*v1475)[v400];
let v405 = *v1483;
*v404 = v405;

}
let v408 = u32(320);
let v409 = v127 + v408;
let v411 = v409 < v180;
if v411 {
let v413 = v409 / v67;
let v415 = v409 % v67;
let v417 = v413 / v117;
let v419 = v413 % v117;
let v420 = v118 + v419;
let v422 = v21 - v49;
let v423 = min(v420, v422);
let v424 = v417 * v21;
let v425 = v175 + v424;
let v426 = v425 + v423;
let v428 = v67 * v415;
let v429 = v124 + v428;
let v431 = vec4<f32>(v46);
var<function> v1484_store: vec4<f32>;
let v1484 = &v1484_store;
*v1484 = v431;
let v433 = v429 < v22;
if v433 {
let v434 = v426 * v22;
let v435 = v434 + v429;
let v437 = v435 / v67;
let v441 = &(*v1654)[v437];
let v442 = *v441;
let v443 = vec4<f32>(v442);
*v1484 = v443;

}
let v445 = v413 * v73;
let v446 = v445 + v415;
let v450 = &(*v1475)[v446];
let v451 = *v1484;
*v450 = v451;

}
let v454 = u32(384);
let v455 = v127 + v454;
let v457 = v455 < v180;
if v457 {
let v459 = v455 / v67;
let v461 = v455 % v67;
let v463 = v459 / v117;
let v465 = v459 % v117;
let v466 = v118 + v465;
let v468 = v21 - v49;
let v469 = min(v466, v468);
let v470 = v463 * v21;
let v471 = v175 + v470;
let v472 = v471 + v469;
let v474 = v67 * v461;
let v475 = v124 + v474;
let v477 = vec4<f32>(v46);
var<function> v1485_store: vec4<f32>;
let v1485 = &v1485_store;
*v1485 = v477;
let v479 = v475 < v22;
if v479 {
let v480 = v472 * v22;
let v481 = v480 + v475;
let v483 = v481 / v67;
let v487 = &(*v1654)[v483];
let v488 = *v487;
let v489 = vec4<f32>(v488);
*v1485 = v489;

}
let v491 = v459 * v73;
let v492 = v491 + v461;
let v496 = &(*v1475)[v492];
let v497 = *v1485;
*v496 = v497;

}
let v500 = u32(448);
let v501 = v127 + v500;
let v503 = v501 < v180;
if v503 {
let v505 = v501 / v67;
let v507 = v501 % v67;
let v509 = v505 / v117;
let v511 = v505 % v117;
let v512 = v118 + v511;
let v514 = v21 - v49;
let v515 = min(v512, v514);
let v516 = v509 * v21;
let v517 = v175 + v516;
let v518 = v517 + v515;
let v520 = v67 * v507;
let v521 = v124 + v520;
let v523 = vec4<f32>(v46);
var<function> v1486_store: vec4<f32>;
let v1486 = &v1486_store;
*v1486 = v523;
let v525 = v521 < v22;
if v525 {
let v526 = v518 * v22;
let v527 = v526 + v521;
let v529 = v527 / v67;
let v533 = &(*v1654)[v529];
let v534 = *v533;
let v535 = vec4<f32>(v534);
*v1486 = v535;

}
let v537 = v505 * v73;
let v538 = v537 + v507;
let v542 = &(*v1475)[v538];
let v543 = *v1486;
*v542 = v543;

}
workgroupBarrier();
for(var v547: u32 = v3; v547 < v67; v547 += v49) {
var<function> v1488_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v1488 = &v1488_store;
let v563 = &(*v1474)[v547];
let v564 = *v563;
let v569 = &(*v1488)[v3];
*v569 = v564;
let v576 = v73 + v547;
let v580 = &(*v1474)[v576];
let v581 = *v580;
let v586 = &(*v1488)[v49];
*v586 = v581;
let v1634 = u32(10);
let v593 = v1634 + v547;
let v597 = &(*v1474)[v593];
let v598 = *v597;
let v603 = &(*v1488)[v55];
*v603 = v598;
let v1630 = u32(15);
let v610 = v1630 + v547;
let v614 = &(*v1474)[v610];
let v615 = *v614;
let v620 = &(*v1488)[v61];
*v620 = v615;
let v1511 = v1510[0];
let v622 = u32(v1511);
let v626 = v622 * v73;
let v627 = v626 + v547;
let v631 = &(*v1475)[v627];
let v632 = *v631;
let v638 = *v45;
let v644 = *v569;
let v645 = v644[0];
let v646 = v632[0];
let v647 = fma(v645, v646, v638);
*v45 = v647;
let v658 = *v45;
let v664 = *v569;
let v665 = v664[1];
let v666 = v632[1];
let v667 = fma(v665, v666, v658);
*v45 = v667;
let v678 = *v45;
let v684 = *v569;
let v685 = v684[2];
let v686 = v632[2];
let v687 = fma(v685, v686, v678);
*v45 = v687;
let v698 = *v45;
let v704 = *v569;
let v705 = v704[3];
let v706 = v632[3];
let v707 = fma(v705, v706, v698);
*v45 = v707;
let v718 = *v57;
let v724 = *v586;
let v725 = v724[0];
let v727 = fma(v725, v646, v718);
*v57 = v727;
let v738 = *v57;
let v744 = *v586;
let v745 = v744[1];
let v747 = fma(v745, v666, v738);
*v57 = v747;
let v758 = *v57;
let v764 = *v586;
let v765 = v764[2];
let v767 = fma(v765, v686, v758);
*v57 = v767;
let v778 = *v57;
let v784 = *v586;
let v785 = v784[3];
let v787 = fma(v785, v706, v778);
*v57 = v787;
let v798 = *v69;
let v804 = *v603;
let v805 = v804[0];
let v807 = fma(v805, v646, v798);
*v69 = v807;
let v818 = *v69;
let v824 = *v603;
let v825 = v824[1];
let v827 = fma(v825, v666, v818);
*v69 = v827;
let v838 = *v69;
let v844 = *v603;
let v845 = v844[2];
let v847 = fma(v845, v686, v838);
*v69 = v847;
let v858 = *v69;
let v864 = *v603;
let v865 = v864[3];
let v867 = fma(v865, v706, v858);
*v69 = v867;
let v878 = *v81;
let v884 = *v620;
let v885 = v884[0];
let v887 = fma(v885, v646, v878);
*v81 = v887;
let v898 = *v81;
let v904 = *v620;
let v905 = v904[1];
let v907 = fma(v905, v666, v898);
*v81 = v907;
let v918 = *v81;
let v924 = *v620;
let v925 = v924[2];
let v927 = fma(v925, v686, v918);
*v81 = v927;
let v938 = *v81;
let v944 = *v620;
let v945 = v944[3];
let v947 = fma(v945, v706, v938);
*v81 = v947;
let v956 = v622 + v117;
let v958 = v956 * v73;
let v959 = v958 + v547;
let v963 = &(*v1475)[v959];
let v964 = *v963;
let v970 = *v51;
let v976 = *v569;
let v977 = v976[0];
let v978 = v964[0];
let v979 = fma(v977, v978, v970);
*v51 = v979;
let v990 = *v51;
let v996 = *v569;
let v997 = v996[1];
let v998 = v964[1];
let v999 = fma(v997, v998, v990);
*v51 = v999;
let v1010 = *v51;
let v1016 = *v569;
let v1017 = v1016[2];
let v1018 = v964[2];
let v1019 = fma(v1017, v1018, v1010);
*v51 = v1019;
let v1030 = *v51;
let v1036 = *v569;
let v1037 = v1036[3];
let v1038 = v964[3];
let v1039 = fma(v1037, v1038, v1030);
*v51 = v1039;
let v1050 = *v63;
let v1056 = *v586;
let v1057 = v1056[0];
let v1059 = fma(v1057, v978, v1050);
*v63 = v1059;
let v1070 = *v63;
let v1076 = *v586;
let v1077 = v1076[1];
let v1079 = fma(v1077, v998, v1070);
*v63 = v1079;
let v1090 = *v63;
let v1096 = *v586;
let v1097 = v1096[2];
let v1099 = fma(v1097, v1018, v1090);
*v63 = v1099;
let v1110 = *v63;
let v1116 = *v586;
let v1117 = v1116[3];
let v1119 = fma(v1117, v1038, v1110);
*v63 = v1119;
let v1130 = *v75;
let v1136 = *v603;
let v1137 = v1136[0];
let v1139 = fma(v1137, v978, v1130);
*v75 = v1139;
let v1150 = *v75;
let v1156 = *v603;
let v1157 = v1156[1];
let v1159 = fma(v1157, v998, v1150);
*v75 = v1159;
let v1170 = *v75;
let v1176 = *v603;
let v1177 = v1176[2];
let v1179 = fma(v1177, v1018, v1170);
*v75 = v1179;
let v1190 = *v75;
let v1196 = *v603;
let v1197 = v1196[3];
let v1199 = fma(v1197, v1038, v1190);
*v75 = v1199;
let v1210 = *v87;
let v1216 = *v620;
let v1217 = v1216[0];
let v1219 = fma(v1217, v978, v1210);
*v87 = v1219;
let v1230 = *v87;
let v1236 = *v620;
let v1237 = v1236[1];
let v1239 = fma(v1237, v998, v1230);
*v87 = v1239;
let v1250 = *v87;
let v1256 = *v620;
let v1257 = v1256[2];
let v1259 = fma(v1257, v1018, v1250);
*v87 = v1259;
let v1270 = *v87;
let v1276 = *v620;
let v1277 = v1276[3];
let v1279 = fma(v1277, v1038, v1270);
*v87 = v1279;

}
workgroupBarrier();

}
let v1514 = v1510[0];
let v1294 = u32(v1514);
let v1295 = v118 + v1294;
let v1298 = v106 < v114;
let v1299 = v1295 < v21;
let v1300 = v1298 && v1299;
if v1300 {
let v1306 = *v45;
let v1309 = f32(1.0);
let v1310 = -v1306;
let v1311 = exp(v1310);
let v1312 = v1309 + v1311;
let v1313 = v1306 / v1312;
var<function> v1489_store: f32;
let v1489 = &v1489_store;
*v1489 = v1313;
let v1322 = *v51;
let v1323 = *v1489;
let v1324 = v1323 * v1322;
*v1489 = v1324;
let v1325 = *v1489;
let v1326 = f16(v1325);
let v1327 = v106 * v21;
let v1328 = v1327 + v1295;
let v1332 = &(*v1653)[v1328];
*v1332 = v1326;

}
let v1337 = v106 + v49;
let v1343 = v1337 < v114;
let v1345 = v1343 && v1299;
if v1345 {
let v1351 = *v57;
let v1354 = f32(1.0);
let v1355 = -v1351;
let v1356 = exp(v1355);
let v1357 = v1354 + v1356;
let v1358 = v1351 / v1357;
var<function> v1490_store: f32;
let v1490 = &v1490_store;
*v1490 = v1358;
let v1367 = *v63;
let v1368 = *v1490;
let v1369 = v1368 * v1367;
*v1490 = v1369;
let v1370 = *v1490;
let v1371 = f16(v1370);
let v1372 = v1337 * v21;
let v1373 = v1372 + v1295;
let v1377 = &(*v1653)[v1373];
*v1377 = v1371;

}
let v1382 = v106 + v55;
let v1388 = v1382 < v114;
let v1390 = v1388 && v1299;
if v1390 {
let v1396 = *v69;
let v1399 = f32(1.0);
let v1400 = -v1396;
let v1401 = exp(v1400);
let v1402 = v1399 + v1401;
let v1403 = v1396 / v1402;
var<function> v1491_store: f32;
let v1491 = &v1491_store;
*v1491 = v1403;
let v1412 = *v75;
let v1413 = *v1491;
let v1414 = v1413 * v1412;
*v1491 = v1414;
let v1415 = *v1491;
let v1416 = f16(v1415);
let v1417 = v1382 * v21;
let v1418 = v1417 + v1295;
let v1422 = &(*v1653)[v1418];
*v1422 = v1416;

}
let v1427 = v106 + v61;
let v1433 = v1427 < v114;
let v1435 = v1433 && v1299;
if v1435 {
let v1441 = *v81;
let v1444 = f32(1.0);
let v1445 = -v1441;
let v1446 = exp(v1445);
let v1447 = v1444 + v1446;
let v1448 = v1441 / v1447;
var<function> v1492_store: f32;
let v1492 = &v1492_store;
*v1492 = v1448;
let v1457 = *v87;
let v1458 = *v1492;
let v1459 = v1458 * v1457;
*v1492 = v1459;
let v1460 = *v1492;
let v1461 = f16(v1460);
let v1462 = v1427 * v21;
let v1463 = v1462 + v1295;
let v1467 = &(*v1653)[v1463];
*v1467 = v1461;

}

}
return;

}
