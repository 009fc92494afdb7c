var<workgroup> shared_v107: array<u32, 256>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 8>, scalars_i32: array<i32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn fp8_amax_parts_f32(@builtin(local_invocation_id) v341: vec3<u32>, @builtin(workgroup_id) v346: vec3<u32>, @builtin(num_workgroups) v348: vec3<u32>) {
let v358 = &v5;
let v359 = &v1;
let v3 = u32(0);
let v318 = info_var.static_meta[1];
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_usize[1];
let v11 = info_var.scalars_usize[2];
let v12 = info_var.scalars_usize[3];
let v13 = info_var.scalars_usize[4];
let v14 = info_var.scalars_usize[5];
let v15 = info_var.scalars_usize[6];
let v16 = info_var.scalars_usize[7];
let v347 = v346[2];
let v324 = u32(v347);
let v349 = v348[1];
let v326 = u32(v349);
let v327 = v324 * v326;
let v350 = v348[0];
let v329 = u32(v350);
let v330 = v327 * v329;
let v351 = v346[1];
let v332 = u32(v351);
let v335 = v332 * v329;
let v336 = v330 + v335;
let v353 = v346[0];
let v338 = u32(v353);
let v339 = v336 + v338;
let v19 = u32(1);
let v340 = u32(0);
var<function> v319_store: u32;
let v319 = &v319_store;
*v319 = v340;
let v28 = v339 < v318;
if v28 {
let v29 = v339 / v15;
let v30 = v29 / v14;
let v31 = v30 / v13;
let v32 = v30 % v13;
let v33 = v32 * v11;
let v34 = v29 % v14;
let v35 = v34 * v12;
let v36 = v9 - v33;
let v37 = min(v11, v36);
let v38 = v10 - v35;
let v39 = min(v12, v38);
let v40 = v31 * v9;
let v41 = v40 + v33;
let v42 = v41 * v10;
let v43 = v42 + v35;
let v44 = v339 % v15;
let v45 = v44 * v16;
let v46 = v37 * v39;
let v47 = min(v45, v46);
let v48 = v47 + v16;
let v50 = min(v48, v46);
let v342 = v341[0];
let v52 = u32(v342);
let v53 = v47 + v52;
let v54 = u32(256);
for(var v55: u32 = v53; v55 < v50; v55 += v54) {
let v57 = v55 / v39;
let v58 = v57 * v10;
let v59 = v43 + v58;
let v60 = v55 % v39;
let v61 = v59 + v60;
let v65 = &(*v359)[v61];
let v66 = *v65;
let v67 = v66[0];
let v68 = bitcast<u32>(v67);
let v69 = u32(2147483647);
let v70 = v68 & v69;
let v71 = u32(2139095040);
let v72 = v70 < v71;
let v74 = select(v340, v70, v72);
let v75 = *v319;
let v76 = max(v75, v74);
*v319 = v76;
let v77 = v66[1];
let v78 = bitcast<u32>(v77);
let v80 = v78 & v69;
let v82 = v80 < v71;
let v84 = select(v340, v80, v82);
let v85 = *v319;
let v86 = max(v85, v84);
*v319 = v86;
let v87 = v66[2];
let v88 = bitcast<u32>(v87);
let v90 = v88 & v69;
let v92 = v90 < v71;
let v94 = select(v340, v90, v92);
let v95 = *v319;
let v96 = max(v95, v94);
*v319 = v96;
let v97 = v66[3];
let v98 = bitcast<u32>(v97);
let v100 = v98 & v69;
let v102 = v100 < v71;
let v104 = select(v340, v100, v102);
let v105 = *v319;
let v106 = max(v105, v104);
*v319 = v106;

}

}
let v321 = &shared_v107;
let v343 = v341[0];
let v112 = u32(v343);
let v121 = &(*v321)[v112];
let v122 = *v319;
*v121 = v122;
workgroupBarrier();
let v123 = u32(128);
let v124 = v112 < v123;
if v124 {
let v127 = v112 + v123;
let v131 = &(*v321)[v127];
let v132 = *v131;
let v138 = *v121;
let v139 = max(v138, v132);
*v121 = v139;

}
workgroupBarrier();
let v145 = u32(64);
let v146 = v112 < v145;
if v146 {
let v149 = v112 + v145;
let v153 = &(*v321)[v149];
let v154 = *v153;
let v160 = *v121;
let v161 = max(v160, v154);
*v121 = v161;

}
workgroupBarrier();
let v167 = u32(32);
let v168 = v112 < v167;
if v168 {
let v171 = v112 + v167;
let v175 = &(*v321)[v171];
let v176 = *v175;
let v182 = *v121;
let v183 = max(v182, v176);
*v121 = v183;

}
workgroupBarrier();
let v189 = u32(16);
let v190 = v112 < v189;
if v190 {
let v193 = v112 + v189;
let v197 = &(*v321)[v193];
let v198 = *v197;
let v204 = *v121;
let v205 = max(v204, v198);
*v121 = v205;

}
workgroupBarrier();
let v211 = u32(8);
let v212 = v112 < v211;
if v212 {
let v215 = v112 + v211;
let v219 = &(*v321)[v215];
let v220 = *v219;
let v226 = *v121;
let v227 = max(v226, v220);
*v121 = v227;

}
workgroupBarrier();
let v233 = u32(4);
let v234 = v112 < v233;
if v234 {
let v237 = v112 + v233;
let v241 = &(*v321)[v237];
let v242 = *v241;
let v248 = *v121;
let v249 = max(v248, v242);
*v121 = v249;

}
workgroupBarrier();
let v255 = u32(2);
let v256 = v112 < v255;
if v256 {
let v259 = v112 + v255;
let v263 = &(*v321)[v259];
let v264 = *v263;
let v270 = *v121;
let v271 = max(v270, v264);
*v121 = v271;

}
workgroupBarrier();
let v278 = v112 < v19;
if v278 {
let v281 = v112 + v19;
let v285 = &(*v321)[v281];
let v286 = *v285;
let v292 = *v121;
let v293 = max(v292, v286);
*v121 = v293;

}
workgroupBarrier();
let v302 = &(*v321)[v3];
let v303 = *v302;
let v306 = v343 == v340;
var<function> v322_store: bool;
let v322 = &v322_store;
if v306 {
*v322 = v28;

} else {
let v310 = false;
*v322 = v310;

}
let v311 = *v322;
if v311 {
let v315 = &(*v358)[v339];
*v315 = v303;

}
return;

}
