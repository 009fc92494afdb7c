@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid_bias_groups(@builtin(workgroup_id) v879: vec3<u32>, @builtin(num_workgroups) v881: vec3<u32>, @builtin(local_invocation_index) v888: u32) {
let v918 = &v21;
let v919 = &v17;
let v920 = &v13;
let v921 = &v9;
let v922 = &v5;
let v923 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[2];
let v28 = info_var.scalars_f32[0];
let v880 = v879[2];
let v788 = u32(v880);
let v882 = v881[1];
let v790 = u32(v882);
let v791 = v788 * v790;
let v883 = v881[0];
let v793 = u32(v883);
let v794 = v791 * v793;
let v884 = v879[1];
let v796 = u32(v884);
let v799 = v796 * v793;
let v800 = v794 + v799;
let v886 = v879[0];
let v802 = u32(v886);
let v803 = v800 + v802;
let v914 = u32(64);
let v806 = v803 * v914;
let v889 = v888;
let v808 = u32(v889);
let v809 = v806 + v808;
let v30 = v809 < v25;
if v30 {
let v32 = v809 * v26;
let v34 = v809 * v27;
let v35 = f32(0.0);
let v36 = vec4<f32>(v35);
let v37 = f32(-3.4028234663852886e38);
let v38 = vec4<f32>(v37);
var<function> v611_store: vec4<f32>;
let v611 = &v611_store;
*v611 = v38;
let v41 = u32(1);
for(var v42: u32 = v3; v42 < v26; v42 += v41) {
let v44 = v32 + v42;
let v48 = &(*v923)[v44];
let v49 = *v48;
let v50 = *v611;
let v51 = max(v50, v49);
*v611 = v51;

}
let v52 = *v611;
let v53 = v52[0];
var<function> v613_store: f32;
let v613 = &v613_store;
*v613 = v53;
let v55 = *v611;
let v56 = v55[1];
let v57 = *v613;
let v58 = max(v57, v56);
*v613 = v58;
let v59 = *v611;
let v60 = v59[2];
let v61 = *v613;
let v62 = max(v61, v60);
*v613 = v62;
let v63 = *v611;
let v64 = v63[3];
let v65 = *v613;
let v66 = max(v65, v64);
*v613 = v66;
var<function> v614_store: vec4<f32>;
let v614 = &v614_store;
*v614 = v36;
for(var v70: u32 = v3; v70 < v26; v70 += v41) {
let v72 = v32 + v70;
let v76 = &(*v923)[v72];
let v77 = *v76;
let v78 = *v613;
let v79 = vec4<f32>(v78);
let v80 = v77 - v79;
let v81 = exp(v80);
let v82 = *v614;
let v83 = v82 + v81;
*v614 = v83;
let v84 = f32(1.0);
let v85 = vec4<f32>(v84);
let v86 = abs(v77);
let v87 = -v86;
let v88 = exp(v87);
let v91 = v77 < v36;
let v92 = select(v85, v88, v91);
let v93 = v85 + v88;
let v94 = v92 / v93;
let v99 = &(*v919)[v72];
*v99 = v94;

}
let v100 = *v614;
var<function> v768_store: f32;
let v768 = &v768_store;
*v768 = v35;
let v619 = v100[0];
let v620 = *v768;
let v621 = v620 + v619;
*v768 = v621;
let v622 = v100[1];
let v623 = *v768;
let v624 = v623 + v622;
*v768 = v624;
let v625 = v100[2];
let v626 = *v768;
let v627 = v626 + v625;
*v768 = v627;
let v628 = v100[3];
let v629 = *v768;
let v630 = v629 + v628;
*v768 = v630;
let v631 = *v768;
let v102 = log(v631);
let v103 = *v613;
let v104 = v103 + v102;
let v109 = &(*v918)[v809];
*v109 = v104;
let v110 = u32(8);
let v111 = v26 / v110;
var<function> v632_store: array<u32, 8>= array<u32, 8>();
let v632 = &v632_store;
for(var v119: u32 = v3; v119 < v110; v119 += v41) {
let v121 = u32(0);
let v122 = vec4<u32>(v121);
var<function> v634_store: vec4<u32>;
let v634 = &v634_store;
*v634 = v122;
var<function> v635_store: vec4<u32>;
let v635 = &v635_store;
*v635 = v122;
let v127 = v119 * v111;
let v129 = v119 + v41;
let v130 = v129 * v111;
for(var v132: u32 = v127; v132 < v130; v132 += v41) {
let v134 = v32 + v132;
let v138 = &(*v919)[v134];
let v139 = *v138;
let v143 = &(*v922)[v132];
let v144 = *v143;
let v145 = v139 + v144;
let v146 = u32(2147483648);
let v147 = vec4<u32>(v146);
let v148 = bitcast<vec4<u32>>(v145);
let v149 = v148 == v147;
let v152 = select(v148, v122, v149);
let v153 = v152 < v147;
let v154 = v152 | v147;
let v155 = ~v152;
let v156 = select(v155, v154, v153);
let v157 = u32(2147483647);
let v158 = vec4<u32>(v157);
let v159 = v152 & v158;
let v160 = u32(2139095040);
let v161 = vec4<u32>(v160);
let v162 = v159 > v161;
let v165 = select(v156, v122, v162);
let v166 = u32(1);
let v167 = vec4<u32>(v166);
let v168 = v165 + v167;
let v171 = *v634;
let v172 = min(v171, v168);
let v173 = *v635;
let v174 = max(v173, v172);
*v635 = v174;
let v175 = *v634;
let v176 = max(v175, v168);
*v634 = v176;

}
let v177 = *v634;
let v178 = v177[0];
var<function> v637_store: u32;
let v637 = &v637_store;
*v637 = v178;
let v180 = *v635;
let v181 = v180[0];
var<function> v638_store: u32;
let v638 = &v638_store;
*v638 = v181;
let v183 = *v634;
let v184 = v183[1];
let v185 = *v635;
let v186 = v185[1];
let v187 = *v638;
let v188 = max(v187, v186);
let v189 = *v637;
let v190 = min(v189, v184);
let v191 = max(v188, v190);
*v638 = v191;
let v192 = *v637;
let v193 = max(v192, v184);
*v637 = v193;
let v194 = *v634;
let v195 = v194[2];
let v196 = *v635;
let v197 = v196[2];
let v198 = *v638;
let v199 = max(v198, v197);
let v200 = *v637;
let v201 = min(v200, v195);
let v202 = max(v199, v201);
*v638 = v202;
let v203 = *v637;
let v204 = max(v203, v195);
*v637 = v204;
let v205 = *v634;
let v206 = v205[3];
let v207 = *v635;
let v208 = v207[3];
let v209 = *v638;
let v210 = max(v209, v208);
let v211 = *v637;
let v212 = min(v211, v206);
let v213 = max(v210, v212);
*v638 = v213;
let v214 = *v637;
let v215 = max(v214, v206);
*v637 = v215;
var<function> v639_store: u32;
let v639 = &v639_store;
*v639 = v121;
let v219 = *v637;
let v221 = v219 > v121;
if v221 {
let v223 = u32(1);
let v224 = v219 - v223;
let v225 = u32(2147483648);
let v226 = v224 < v225;
let v227 = ~v224;
let v228 = u32(2147483647);
let v229 = v224 & v228;
let v230 = select(v229, v227, v226);
let v231 = bitcast<f32>(v230);
var<function> v640_store: f32;
let v640 = &v640_store;
*v640 = v231;
let v233 = *v638;
let v235 = v233 > v121;
if v235 {
let v238 = v233 - v223;
let v240 = v238 < v225;
let v241 = ~v238;
let v243 = v238 & v228;
let v244 = select(v243, v241, v240);
let v245 = bitcast<f32>(v244);
let v246 = *v640;
let v247 = v246 + v245;
*v640 = v247;

}
let v248 = *v640;
let v250 = bitcast<u32>(v248);
let v251 = v250 == v225;
let v253 = select(v250, v121, v251);
let v254 = v253 < v225;
let v255 = v253 | v225;
let v256 = ~v253;
let v257 = select(v256, v255, v254);
let v259 = v253 & v228;
let v260 = u32(2139095040);
let v261 = v259 > v260;
let v263 = select(v257, v121, v261);
let v265 = v263 + v223;
*v639 = v265;

}
let v269 = &(*v632)[v119];
let v270 = *v639;
*v269 = v270;

}
let v272 = u32(4);
for(var v274: u32 = v3; v274 < v272; v274 += v41) {
var<function> v642_store: u32;
let v642 = &v642_store;
*v642 = v3;
let v279 = u32(0);
var<function> v643_store: u32;
let v643 = &v643_store;
*v643 = v279;
for(var v285: u32 = v3; v285 < v110; v285 += v41) {
let v290 = &(*v632)[v285];
let v291 = *v290;
let v292 = *v643;
let v293 = v291 > v292;
var<function> v645_store: bool;
let v645 = &v645_store;
if v293 {
let v294 = u32(4294967295);
let v295 = v291 != v294;
*v645 = v295;

} else {
let v297 = false;
*v645 = v297;

}
let v298 = *v645;
if v298 {
*v643 = v291;
*v642 = v285;

}

}
let v299 = *v643;
let v301 = v299 > v279;
if v301 {
let v304 = *v642;
let v306 = &(*v632)[v304];
let v307 = u32(4294967295);
*v306 = v307;

}

}
let v308 = u32(4294967295);
var<function> v646_store: u32;
let v646 = &v646_store;
*v646 = v308;
let v311 = u32(0);
var<function> v647_store: u32;
let v647 = &v647_store;
*v647 = v311;
for(var v316: u32 = v3; v316 < v27; v316 += v41) {
let v319 = vec4<u32>(v311);
var<function> v649_store: vec4<u32>;
let v649 = &v649_store;
*v649 = v319;
var<function> v650_store: vec4<u32>;
let v650 = &v650_store;
*v650 = v319;
for(var v329: u32 = v3; v329 < v110; v329 += v41) {
let v334 = &(*v632)[v329];
let v335 = *v334;
let v337 = v335 == v308;
if v337 {
let v338 = v329 * v111;
let v340 = v329 + v41;
let v341 = v340 * v111;
var<function> v652_store: vec4<u32>;
let v652 = &v652_store;
*v652 = v319;
var<function> v653_store: vec4<u32>;
let v653 = &v653_store;
let v346 = *v652;
*v653 = v346;
let v347 = *v653;
let v349 = vec4<u32>(v311, v347[1], v347[2], v347[3]);
*v653 = v349;
let v350 = *v653;
let v351 = u32(1);
let v352 = vec4<u32>(v350[0], v351, v350[2], v350[3]);
*v653 = v352;
let v353 = *v653;
let v354 = u32(2);
let v355 = vec4<u32>(v353[0], v353[1], v354, v353[3]);
*v653 = v355;
let v356 = *v653;
let v357 = u32(3);
let v358 = vec4<u32>(v356[0], v356[1], v356[2], v357);
*v653 = v358;
let v359 = *v646;
let v360 = vec4<u32>(v359);
let v361 = *v647;
let v362 = vec4<u32>(v361);
for(var v364: u32 = v338; v364 < v341; v364 += v41) {
let v367 = v364 * v272;
let v368 = u32(v367);
let v369 = vec4<u32>(v368);
let v370 = *v653;
let v371 = v370 + v369;
let v372 = v32 + v364;
let v376 = &(*v919)[v372];
let v377 = *v376;
let v381 = &(*v922)[v364];
let v382 = *v381;
let v383 = v377 + v382;
let v384 = u32(2147483648);
let v385 = vec4<u32>(v384);
let v386 = bitcast<vec4<u32>>(v383);
let v387 = v386 == v385;
let v390 = select(v386, v319, v387);
let v391 = v390 < v385;
let v392 = v390 | v385;
let v393 = ~v390;
let v394 = select(v393, v392, v391);
let v395 = u32(2147483647);
let v396 = vec4<u32>(v395);
let v397 = v390 & v396;
let v398 = u32(2139095040);
let v399 = vec4<u32>(v398);
let v400 = v397 > v399;
let v403 = select(v394, v319, v400);
let v405 = vec4<u32>(v351);
let v406 = v403 + v405;
let v409 = v371 > v362;
let v410 = v406 == v360;
let v655 = false;
let v656 = vec4<bool>(v655);
var<function> v769_store: vec4<bool>;
let v769 = &v769_store;
*v769 = v656;
var<function> v770_store: vec4<bool>;
let v770 = &v770_store;
let v659 = *v769;
*v770 = v659;
let v660 = v410[0];
var<function> v771_store: bool;
let v771 = &v771_store;
if v660 {
let v661 = v409[0];
*v771 = v661;

} else {
*v771 = v655;

}
let v664 = *v770;
let v665 = *v771;
let v666 = vec4<bool>(v665, v664[1], v664[2], v664[3]);
*v770 = v666;
let v667 = v410[1];
var<function> v772_store: bool;
let v772 = &v772_store;
if v667 {
let v668 = v409[1];
*v772 = v668;

} else {
*v772 = v655;

}
let v671 = *v770;
let v672 = *v772;
let v673 = vec4<bool>(v671[0], v672, v671[2], v671[3]);
*v770 = v673;
let v674 = v410[2];
var<function> v773_store: bool;
let v773 = &v773_store;
if v674 {
let v675 = v409[2];
*v773 = v675;

} else {
*v773 = v655;

}
let v678 = *v770;
let v679 = *v773;
let v680 = vec4<bool>(v678[0], v678[1], v679, v678[3]);
*v770 = v680;
let v681 = v410[3];
var<function> v774_store: bool;
let v774 = &v774_store;
if v681 {
let v682 = v409[3];
*v774 = v682;

} else {
*v774 = v655;

}
let v685 = *v770;
let v686 = *v774;
let v687 = vec4<bool>(v685[0], v685[1], v685[2], v686);
*v770 = v687;
let v688 = *v770;
let v412 = v406 < v360;
var<function> v775_store: vec4<bool>;
let v775 = &v775_store;
*v775 = v656;
var<function> v776_store: vec4<bool>;
let v776 = &v776_store;
let v693 = *v775;
*v776 = v693;
let v694 = v412[0];
let v695 = true;
var<function> v777_store: bool;
let v777 = &v777_store;
if v694 {
*v777 = v695;

} else {
let v698 = v688[0];
*v777 = v698;

}
let v699 = *v776;
let v700 = *v777;
let v701 = vec4<bool>(v700, v699[1], v699[2], v699[3]);
*v776 = v701;
let v702 = v412[1];
var<function> v778_store: bool;
let v778 = &v778_store;
if v702 {
*v778 = v695;

} else {
let v706 = v688[1];
*v778 = v706;

}
let v707 = *v776;
let v708 = *v778;
let v709 = vec4<bool>(v707[0], v708, v707[2], v707[3]);
*v776 = v709;
let v710 = v412[2];
var<function> v779_store: bool;
let v779 = &v779_store;
if v710 {
*v779 = v695;

} else {
let v714 = v688[2];
*v779 = v714;

}
let v715 = *v776;
let v716 = *v779;
let v717 = vec4<bool>(v715[0], v715[1], v716, v715[3]);
*v776 = v717;
let v718 = v412[3];
var<function> v780_store: bool;
let v780 = &v780_store;
if v718 {
*v780 = v695;

} else {
let v722 = v688[3];
*v780 = v722;

}
let v723 = *v776;
let v724 = *v780;
let v725 = vec4<bool>(v723[0], v723[1], v723[2], v724);
*v776 = v725;
let v726 = *v776;
let v414 = *v649;
let v415 = v406 > v414;
var<function> v781_store: vec4<bool>;
let v781 = &v781_store;
*v781 = v656;
var<function> v782_store: vec4<bool>;
let v782 = &v782_store;
let v731 = *v781;
*v782 = v731;
let v732 = v415[0];
var<function> v783_store: bool;
let v783 = &v783_store;
if v732 {
let v733 = v726[0];
*v783 = v733;

} else {
*v783 = v655;

}
let v736 = *v782;
let v737 = *v783;
let v738 = vec4<bool>(v737, v736[1], v736[2], v736[3]);
*v782 = v738;
let v739 = v415[1];
var<function> v784_store: bool;
let v784 = &v784_store;
if v739 {
let v740 = v726[1];
*v784 = v740;

} else {
*v784 = v655;

}
let v743 = *v782;
let v744 = *v784;
let v745 = vec4<bool>(v743[0], v744, v743[2], v743[3]);
*v782 = v745;
let v746 = v415[2];
var<function> v785_store: bool;
let v785 = &v785_store;
if v746 {
let v747 = v726[2];
*v785 = v747;

} else {
*v785 = v655;

}
let v750 = *v782;
let v751 = *v785;
let v752 = vec4<bool>(v750[0], v750[1], v751, v750[3]);
*v782 = v752;
let v753 = v415[3];
var<function> v786_store: bool;
let v786 = &v786_store;
if v753 {
let v754 = v726[3];
*v786 = v754;

} else {
*v786 = v655;

}
let v757 = *v782;
let v758 = *v786;
let v759 = vec4<bool>(v757[0], v757[1], v757[2], v758);
*v782 = v759;
let v760 = *v782;
let v417 = *v649;
let v418 = select(v417, v406, v760);
*v649 = v418;
let v419 = *v650;
let v420 = select(v419, v371, v760);
*v650 = v420;

}

}

}
let v421 = *v649;
let v422 = v421[0];
var<function> v761_store: u32;
let v761 = &v761_store;
*v761 = v422;
let v424 = *v650;
let v425 = v424[0];
var<function> v762_store: u32;
let v762 = &v762_store;
*v762 = v425;
let v427 = *v649;
let v428 = v427[1];
let v429 = *v650;
let v430 = v429[1];
let v431 = *v761;
let v432 = v428 > v431;
let v434 = v428 == v431;
let v435 = *v762;
let v436 = v430 < v435;
let v437 = v434 && v436;
let v438 = v432 || v437;
let v440 = select(v431, v428, v438);
*v761 = v440;
let v441 = *v762;
let v442 = select(v441, v430, v438);
*v762 = v442;
let v443 = *v649;
let v444 = v443[2];
let v445 = *v650;
let v446 = v445[2];
let v447 = *v761;
let v448 = v444 > v447;
let v450 = v444 == v447;
let v451 = *v762;
let v452 = v446 < v451;
let v453 = v450 && v452;
let v454 = v448 || v453;
let v456 = select(v447, v444, v454);
*v761 = v456;
let v457 = *v762;
let v458 = select(v457, v446, v454);
*v762 = v458;
let v459 = *v649;
let v460 = v459[3];
let v461 = *v650;
let v462 = v461[3];
let v463 = *v761;
let v464 = v460 > v463;
let v466 = v460 == v463;
let v467 = *v762;
let v468 = v462 < v467;
let v469 = v466 && v468;
let v470 = v464 || v469;
let v472 = select(v463, v460, v470);
*v761 = v472;
let v473 = *v762;
let v474 = select(v473, v462, v470);
*v762 = v474;
let v475 = *v761;
let v477 = v475 > v311;
if v477 {
*v646 = v475;
let v479 = *v762;
*v647 = v479;
let v480 = *v762;
let v481 = u32(v480);
let v483 = v481 / v272;
let v484 = v32 + v483;
let v488 = v481 % v272;
let v489 = v34 + v316;
let v493 = &(*v921)[v489];
*v493 = v480;
let v498 = &(*v923)[v484];
let v499 = *v498;
let v500 = v499[v488];
let v502 = min(v500, v35);
let v503 = abs(v500);
let v504 = -v503;
let v505 = exp(v504);
let v506 = f32(1.0);
let v507 = v506 + v505;
let v508 = log(v507);
let v509 = v502 - v508;
let v514 = &(*v920)[v489];
*v514 = v509;

} else {
let v516 = v26 * v272;
let v517 = u32(v516);
let v518 = v34 + v316;
let v522 = &(*v921)[v518];
*v522 = v517;
let v527 = &(*v920)[v518];
*v527 = v35;

}

}
let v530 = v26 * v272;
let v531 = u32(v530);
let v532 = v34 + v27;
let v536 = &(*v920)[v34];
let v537 = *v536;
var<function> v763_store: f32;
let v763 = &v763_store;
*v763 = v537;
let v540 = v34 + v41;
for(var v542: u32 = v540; v542 < v532; v542 += v41) {
let v547 = &(*v921)[v542];
let v548 = *v547;
let v549 = v548 < v531;
if v549 {
let v553 = &(*v920)[v542];
let v554 = *v553;
let v555 = *v763;
let v556 = max(v555, v554);
*v763 = v556;

}

}
var<function> v765_store: f32;
let v765 = &v765_store;
*v765 = v35;
for(var v561: u32 = v34; v561 < v532; v561 += v41) {
let v566 = &(*v921)[v561];
let v567 = *v566;
let v568 = v567 < v531;
if v568 {
let v572 = &(*v920)[v561];
let v573 = *v572;
let v574 = *v763;
let v575 = v573 - v574;
let v576 = exp(v575);
*v572 = v576;
let v581 = *v765;
let v582 = v581 + v576;
*v765 = v582;

}

}
for(var v584: u32 = v34; v584 < v532; v584 += v41) {
let v589 = &(*v921)[v584];
let v590 = *v589;
let v591 = v590 < v531;
if v591 {
let v595 = &(*v920)[v584];
let v596 = *v595;
let v597 = *v765;
let v598 = v596 / v597;
let v599 = v28 * v598;
*v595 = v599;

}

}

}
return;

}
